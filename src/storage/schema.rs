//! The versions of the file's tables. A file becomes the newest version one version at a time, each in a transaction of
//! its own.

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;

/// `BQMC` in the file's header: whose tables these are.
const APPLICATION_ID: i64 = 0x4251_4d43;

/// What makes each version out of the one before it; the first one out of nothing.
const MIGRATIONS: [&str; 1] = [include_str!("schema_1.sql")];

fn number(connection: &Connection, pragma: &str) -> Result<i64, StoreError> {
    let number = connection.pragma_query_value(None, pragma, |row| row.get(0))?;
    Ok(number)
}

fn tables(connection: &Connection) -> Result<i64, StoreError> {
    let count = "SELECT count(*) FROM sqlite_schema";
    Ok(connection.query_row(count, [], |row| row.get(0))?)
}

/// Looks at a file before anything in it is touched; one without tables may become ours.
///
/// # Errors
/// [`StoreError::Newer`], [`StoreError::Foreign`].
pub(super) fn refuse_newer(connection: &Connection) -> Result<(), StoreError> {
    if tables(connection)? > 0 {
        return refuse_foreign(connection);
    }
    refuse_version(connection)
}

/// Looks at a file that has to be ours already.
///
/// # Errors
/// [`StoreError::Empty`], [`StoreError::Newer`], [`StoreError::Foreign`].
pub(super) fn refuse_foreign(connection: &Connection) -> Result<(), StoreError> {
    if tables(connection)? == 0 {
        return Err(StoreError::Empty);
    }
    if number(connection, "application_id")? != APPLICATION_ID {
        return Err(StoreError::Foreign);
    }
    refuse_version(connection)
}

fn refuse_version(connection: &Connection) -> Result<(), StoreError> {
    let supported = MIGRATIONS.len() as i64;
    let found = number(connection, "user_version")?;
    if found > supported {
        return Err(StoreError::Newer { found, supported });
    }
    Ok(())
}

/// Brings the tables to the newest version.
///
/// # Errors
/// [`StoreError`]; the file is then of the last version that was reached.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let found = usize::try_from(number(connection, "user_version")?).unwrap_or(0);
    for (version, sql) in MIGRATIONS.iter().enumerate().skip(found) {
        let behavior = TransactionBehavior::Immediate;
        let transaction = connection.transaction_with_behavior(behavior)?;
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", (version + 1) as i64)?;
        transaction.commit()?;
    }
    Ok(())
}
