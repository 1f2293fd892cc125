// The published npm client (`bunqueue`, run by bun) as a driver.
//
// One JSON request per line on stdin, one reply per line on stdout, events in between (see README.md).
// Job data, results and options travel in the tagged JSON form; `tag` and `untag` are its two directions.

import { createInterface } from 'node:readline';
import { FlowProducer, Queue, QueueEvents, Worker } from 'bunqueue/client';
import { simpleMode } from './simple.mjs';

const [, , port, authority] = process.argv;
const connection = { host: '127.0.0.1', port: Number(port), ...(authority && { tls: { caFile: authority } }) };
const queues = new Map();
const listeners = [];
const failedOnce = new Set();
let flows;
let app;
let worker;

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

function tag(value) {
  if (typeof value === 'bigint') {
    const safe = value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER);
    return safe ? Number(value) : { $int: String(value) };
  }
  if (Object.is(value, -0)) return { $float: '-0' };
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('base64') };
  if (Array.isArray(value)) return value.map(tag);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, tag(item)]));
}

function untag(value) {
  if (Array.isArray(value)) return value.map(untag);
  if (value === null || typeof value !== 'object') return value;
  const entries = Object.entries(value);
  if (entries.length === 1) {
    const [[key, item]] = entries;
    if (key === '$bytes') return Buffer.from(item, 'base64');
    if (key === '$int') return BigInt(item);
    if (key === '$float') return Number(item);
  }
  return Object.fromEntries(entries.map(([key, item]) => [key, untag(item)]));
}

// What a job looks like in a reply: its fields without its methods. Also in what has a job: a node of a flow, an entry
// of the dead-letter queue.
function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (value?.job) return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
  if (typeof value?.getState !== 'function') return tag(value);
  const { id, name, data, priority, progress, delay, timestamp, processedOn } = value;
  const { attemptsMade, returnvalue, failedReason, stacktrace } = value;
  const outcome = { attemptsMade, returnvalue, failedReason, stacktrace };
  return tag({ id, name, data, priority, progress, delay, timestamp, processedOn, ...outcome });
}

function queueOf(name) {
  if (!queues.has(name)) queues.set(name, new Queue(name, { connection }));
  return queues.get(name);
}

const addOptions = ({ job_id, ...options }) => (job_id === undefined ? options : { ...options, jobId: job_id });

// Takes a job and never ends.
async function hold({ id, data, attemptsMade }) {
  say({ event: 'started', job: id, attempts: attemptsMade, data: tag(data) });
  await new Promise(() => {});
}

async function processOne(job) {
  const { id, name, data, attemptsMade } = job;
  say({ event: 'started', job: id, name, attempts: attemptsMade, data: tag(data) });
  if (data.progress !== undefined) await job.updateProgress(data.progress, 'on the way');
  if (data.log !== undefined) await job.log(data.log);
  if (data.takes !== undefined) await Bun.sleep(data.takes);
  if (data.fails === 'once' && !failedOnce.has(id)) {
    failedOnce.add(id);
    throw new Error('planned failure');
  }
  if (attemptsMade < (data.failures ?? 0)) throw new Error(`planned failure ${attemptsMade + 1}`);
  const result = { n: data.n, double: data.n * 2, by: 'npm' };
  if (data.collects) result.children = await job.getChildrenValues();
  say({ event: 'done', job: id, result });
  return result;
}

// A batch is acknowledged job by job, all with the result of the one call.
async function processBatch(leader) {
  const jobs = leader.getBatch();
  for (const job of jobs) say({ event: 'done', job: job.id, result: { batch: jobs.length } });
  return { batch: jobs.length };
}

const ops = {
  add: async ({ queue, name, data, options }) => (await queueOf(queue).add(name, untag(data), addOptions(options))).id,

  add_bulk: async ({ queue, jobs }) => {
    const entries = jobs.map(({ name, data, options }) => ({ name, data: untag(data), opts: addOptions(options) }));
    return (await queueOf(queue).addBulk(entries)).map((job) => job.id);
  },

  job: async ({ queue, job: jobId }) => {
    const job = await queueOf(queue).getJob(jobId);
    return {
      state: await queueOf(queue).getJobState(jobId),
      attempts: job.attemptsMade,
      data: tag(job.data),
      result: tag(job.returnvalue ?? null),
      failedReason: job.failedReason ?? null,
    };
  },

  counts: ({ queue }) => queueOf(queue).getJobCountsAsync(),

  // Any method of Queue.
  call: async ({ queue, method, args = [] }) => plain(await queueOf(queue)[method](...args.map(untag))) ?? null,

  // Any method of FlowProducer.
  flow: async ({ method, args = [] }) => {
    flows ??= new FlowProducer({ connection });
    return plain(await flows[method](...args.map(untag))) ?? null;
  },

  // Starts Simple Mode on a queue; then any method of it.
  simple: ({ queue, options }) => {
    app = simpleMode(queue, { ...options, connection }, say);
  },
  app: async ({ method, args = [] }) => plain(await app[method](...args.map(untag))) ?? null,

  work: async ({ queue, concurrency = 4, lock_ttl = 30000, heartbeat = 10000, holding, batch, group, pool }) => {
    worker = new Worker(queue, holding ? hold : batch ? processBatch : processOne, {
      connection: { ...connection, poolSize: pool },
      concurrency,
      batch: batch && { size: batch },
      group,
      lockDuration: lock_ttl,
      heartbeatInterval: heartbeat,
    });
    worker.on('error', (error) => say({ event: 'error', error: error.message }));
    await worker.waitUntilReady();
  },

  stop: () => worker.close(),

  // Reports every event of a queue; ready when the broker has confirmed the subscription.
  listen: async ({ queue, types }) => {
    const events = new QueueEvents(queue, { connection });
    for (const type of types) events.on(type, (event) => say({ event: 'queue', type, ...event }));
    await events.waitUntilReady();
    listeners.push(events);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, op, ...request } = JSON.parse(line);
  try {
    say({ id, result: (await ops[op](request)) ?? null });
  } catch (error) {
    say({ id, error: `${error.name}: ${error.message}` });
  }
}
for (const events of listeners) events.close();
process.exit(0);
