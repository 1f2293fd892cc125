//! Dead letters, reruns and the policies of queues, over the worker door.
