-- What an engine has to keep (engine contract, section 24). Times are Unix milliseconds. Values that only the engine reads are
-- MessagePack maps with named fields, in which unknown names are passed over and missing ones have their defaults.
-- Ids are the 16 bytes of a UUID or a text.

-- Numbers of the whole: what all queues have counted.
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Queues with their settings and figures.
CREATE TABLE queue (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  settings BLOB NOT NULL
) STRICT;

-- What is set for groups.
CREATE TABLE job_group (
  queue INTEGER NOT NULL,
  name TEXT NOT NULL,
  settings BLOB NOT NULL,
  PRIMARY KEY (queue, name)
) STRICT, WITHOUT ROWID;

-- Jobs that ended by the minute; kind 0 completed, 1 failed; minutes since the epoch.
CREATE TABLE minute (
  queue INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  minute INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (queue, kind, minute)
) STRICT, WITHOUT ROWID;

-- Jobs in order of admission, as they were admitted.
CREATE TABLE job (
  seq INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  id ANY NOT NULL,
  -- NULL stands for 'default'.
  name TEXT,
  created_at INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  options BLOB,
  parent BLOB,
  -- NULL for none, and for what stands in job_data.
  data BLOB,
  -- 0 waiting, 1 prioritized, 2 delayed, 3 active, 4 completed, 5 failed, 6 waiting-children
  state INTEGER NOT NULL,
  -- Bits of `Flags` in row.rs; the lowest three are the state in which it was admitted.
  flags INTEGER NOT NULL,
  priority REAL NOT NULL,
  run_at INTEGER NOT NULL,
  -- When its deduplication key is free again.
  key_until INTEGER
) STRICT;

-- What has become of a job since: its columns of the same names stand for those in job. Small and apart from the job, so that a
-- delivery and its end write one short row and leave the data where it is.
CREATE TABLE course (
  job INTEGER PRIMARY KEY,
  state INTEGER NOT NULL,
  flags INTEGER NOT NULL,
  priority REAL NOT NULL,
  run_at INTEGER NOT NULL,
  key_until INTEGER,
  attempts INTEGER NOT NULL,
  life BLOB,
  result BLOB
) STRICT;

-- Data that is too large to be written again with every change of its job.
CREATE TABLE job_data (
  seq INTEGER PRIMARY KEY,
  data BLOB NOT NULL
) STRICT;

-- What a job has to do with another one: it waits for it, is its parent, has its result or its error.
CREATE TABLE tie (
  job INTEGER NOT NULL,
  other ANY NOT NULL,
  -- Places among the dependencies and among the children.
  dependency INTEGER,
  child INTEGER,
  unmet INTEGER NOT NULL,
  value_queue TEXT,
  value BLOB,
  failure_place INTEGER,
  failure BLOB,
  PRIMARY KEY (job, other)
) STRICT, WITHOUT ROWID;

CREATE TABLE log (
  job INTEGER NOT NULL,
  line INTEGER NOT NULL,
  at INTEGER NOT NULL,
  level TEXT NOT NULL,
  message TEXT NOT NULL,
  PRIMARY KEY (job, line)
) STRICT, WITHOUT ROWID;

-- Completed jobs that are kept no more, but may be depended on.
CREATE TABLE proof (
  number INTEGER PRIMARY KEY,
  id ANY NOT NULL
) STRICT;

CREATE TABLE cron (
  place INTEGER PRIMARY KEY,
  cron BLOB NOT NULL
) STRICT;

CREATE TABLE webhook (
  place INTEGER PRIMARY KEY,
  webhook BLOB NOT NULL
) STRICT;
