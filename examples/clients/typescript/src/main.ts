// Makes a queue, submits ten jobs, watches them until all have ended and tells how.
//
// Exits with 0 if all succeeded, with 1 if some did not, and with 2 if the server could not be used.
import { setTimeout as sleep } from "node:timers/promises";

import { Code, ConnectError, createClient, type Client } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";

import { EventService, JobEventKind, type JobEvent } from "./gen/argosy/api/v1/event_pb.js";
import { JobService, JobState } from "./gen/argosy/api/v1/job_pb.js";
import { QueueService } from "./gen/argosy/api/v1/queue_pb.js";

const JOB_COUNT = 10;
const CALL = { timeoutMs: 30_000 };
const MAX_PAUSE_MS = 2_000;
const MAX_ATTEMPTS = 20; // in a row without an answer, about half a minute

const MANIFEST = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { annotations: { "argosy.dev/simulated-run-time": "1s-2s" } },
  spec: {
    restartPolicy: "Never",
    securityContext: { runAsNonRoot: true, runAsUser: 65534, seccompProfile: { type: "RuntimeDefault" } },
    containers: [
      {
        name: "main",
        image: "busybox:1.36",
        command: ["sleep", "1"],
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
        resources: { requests: { cpu: "100m", memory: "64Mi" } },
      },
    ],
  },
};

type Counts = Record<string, bigint>;

/** Makes the queue unless there is one by its name. */
async function createQueue(queues: Client<typeof QueueService>, name: string): Promise<void> {
  try {
    await repeat(() => queues.createQueue({ queue: { name } }, CALL));
  } catch (error) {
    // That is a queue with other settings: use it.
    if (ConnectError.from(error).code !== Code.AlreadyExists) throw error;
  }
  console.log(`queue ${name}`);
}

/** Submits ten jobs of one spec. Their client ids make it safe to send the request again. */
async function submitJobs(jobs: Client<typeof JobService>, queue: string, jobSet: string): Promise<void> {
  const manifest = JSON.stringify(MANIFEST);
  const items = Array.from({ length: JOB_COUNT }, (_, index) => ({
    spec: 0,
    queue,
    jobSet,
    clientId: `${jobSet}-${index}`,
  }));
  const response = await repeat(() => jobs.submitJobs({ specs: [{ manifests: [manifest] }], items }, CALL));
  console.log(`submitted ${response.jobIds.length} jobs to job set ${jobSet}`);
}

/**
 * Prints every event once until all jobs have ended, and returns how many are in which state. A broken stream is opened
 * again at the cursor of the last batch.
 */
async function watchJobSet(events: Client<typeof EventService>, queue: string, jobSet: string): Promise<Counts> {
  let cursor = "";
  let counts: Counts = {};
  for (let failures = 1; ; failures++) {
    let reason: unknown = "ended by the server";
    try {
      for await (const batch of events.watchJobSet({ queue, jobSet, cursor, untilFinished: true })) {
        batch.events.forEach(print);
        cursor = batch.cursor;
        counts = Object.fromEntries(
          batch.stateCounts.map(({ state, jobCount }) => [JobState[state]?.toLowerCase() ?? `state ${state}`, jobCount]),
        );
        failures = 0;
      }
      if (isFinished(counts)) return counts;
    } catch (error) {
      if (!isPassing(error)) throw error;
      reason = error;
    }
    if (failures === MAX_ATTEMPTS) throw reason;
    console.error(`stream ended (${reason}), resuming`);
    await pause(failures);
  }
}

function print(event: JobEvent): void {
  const kind = JobEventKind[event.kind]?.toLowerCase() ?? `kind ${event.kind}`;
  console.log(`${String(event.number).padStart(4)} ${event.jobId} ${kind} ${event.node}`);
}

/** Makes a call again while the server cannot be reached; every mutation of Argosy may be repeated. */
async function repeat<T>(call: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await call();
    } catch (error) {
      if (!isPassing(error) || failures === MAX_ATTEMPTS) throw error;
      await pause(failures);
    }
  }
}

/** Returns whether an error says nothing against trying again. */
function isPassing(error: unknown): boolean {
  return [Code.Unavailable, Code.DeadlineExceeded, Code.Canceled].includes(ConnectError.from(error).code);
}

function isFinished(counts: Counts): boolean {
  const open = ["queued", "leased", "running"].some((state) => (counts[state] ?? 0n) > 0n);
  return Object.keys(counts).length > 0 && !open;
}

async function pause(failures: number): Promise<void> {
  await sleep(Math.min(50 * 2 ** failures, MAX_PAUSE_MS));
}

/** Reads as in "9 succeeded, 1 failed". */
function summary(counts: Counts): string {
  return Object.entries(counts)
    .filter(([, count]) => count > 0n)
    .map(([state, count]) => `${count} ${state}`)
    .sort()
    .join(", ");
}

const server = process.env.ARGOSY_SERVER || "127.0.0.1:50051";
const queue = process.env.ARGOSY_QUEUE || "quick-start";
const jobSet = `typescript-${Date.now()}`;
const transport = createGrpcTransport({ baseUrl: `http://${server}` });
try {
  await createQueue(createClient(QueueService, transport), queue);
  await submitJobs(createClient(JobService, transport), queue, jobSet);
  const counts = await watchJobSet(createClient(EventService, transport), queue, jobSet);
  console.log(summary(counts));
  process.exitCode = counts["succeeded"] === BigInt(JOB_COUNT) ? 0 : 1;
} catch (error) {
  console.error(`error: ${ConnectError.from(error).message}`);
  process.exitCode = 2;
}
