//! A file that is not finished: it stands beside the one that it will be, and goes with whoever gives it up.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::{SIDES, beside};

/// Random bytes in the name of a part.
const NAME_BYTES: usize = 6;

/// The unfinished file. Dropped, it is gone.
pub(super) struct Part {
    path: PathBuf,
}

impl Part {
    /// A new and empty one beside `target`, for nobody's eyes but the owner's.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn beside(target: &Path) -> io::Result<Self> {
        // Two that work on one target must not work on one part, nor meet what a killed one has left.
        let mut random = [0; NAME_BYTES];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = beside(target, &format!("-part-{random}"));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&path)?;
        Ok(Self { path })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its length.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn bytes(&self) -> io::Result<u64> {
        Ok(fs::metadata(&self.path)?.len())
    }

    /// Gives it to those who have `model`, as far as the system lets us.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn become_like(&self, model: &Path) -> io::Result<()> {
        let model = fs::metadata(model)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, chown};
            // Only the superuser may give a file away; for others it is theirs already.
            let _ = chown(&self.path, Some(model.uid()), Some(model.gid()));
        }
        fs::set_permissions(&self.path, model.permissions())
    }

    /// Brings it to the disk and gives it the name of `target`, in one step; without `replace` only if nothing has it.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`], or what else the system says.
    pub(super) fn publish(self, target: &Path, replace: bool) -> io::Result<()> {
        // Windows brings to the disk only what is open for writing.
        let written = OpenOptions::new().write(true).open(&self.path)?;
        written.sync_all()?;
        drop(written);
        remove_sides(target)?;
        if replace {
            fs::rename(&self.path, target)?;
        } else {
            match fs::hard_link(&self.path, target) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
                // Not every file system has a second name for a file.
                Err(_) if target.exists() => return Err(ErrorKind::AlreadyExists.into()),
                Err(_) => fs::rename(&self.path, target)?,
            }
        }
        sync_directory(target)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Published, it has no such name any more.
        let _ = fs::remove_file(&self.path);
        let _ = remove_sides(&self.path);
    }
}

fn remove_sides(path: &Path) -> io::Result<()> {
    for suffix in SIDES {
        match fs::remove_file(beside(path, suffix)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// A new name outlasts a power cut only with its directory.
fn sync_directory(of: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let absolute = std::path::absolute(of)?;
    let directory = absolute.parent().unwrap_or(&absolute);
    File::open(directory)?.sync_all()
}
