// Simple Mode of the npm client: one object that is queue and worker, with the features it builds on top.

import { Bunqueue } from 'bunqueue/client';

export function simpleMode(queue, options, say) {
  const seen = new Map();
  const app = new Bunqueue(queue, {
    ...options,
    routes: {
      double: async (job) => ({ double: job.data.n * 2 }),
      report: async (job) => ({ reported: job.data.double }),
      tick: async () => 'ticked',
      // Fails as often as its data says; attempts within one delivery count too.
      flaky: async (job) => {
        const calls = (seen.get(job.id) ?? 0) + 1;
        seen.set(job.id, calls);
        if (calls <= job.data.failures) throw new Error(`planned failure ${calls}`);
        return { calls };
      },
    },
  });
  app.use(async (job, next) => {
    say({ event: 'started', job: job.id, name: job.name });
    const result = await next();
    say({ event: 'done', job: job.id, name: job.name, result });
    return result;
  });
  app.trigger({ on: 'double', create: 'report', data: (result) => result, condition: (result) => result.double > 10 });
  app.on('error', (error) => say({ event: 'error', error: error.message }));
  return app;
}
