//! Makes a queue, submits ten jobs, watches them until all have ended and tells how.
//!
//! Exits with 0 if all succeeded, with 1 if some did not, and with 2 if the server could not be used.

use std::collections::HashMap;
use std::env;
use std::future::Future;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use api::event_service_client::EventServiceClient;
use api::job_service_client::JobServiceClient;
use api::queue_service_client::QueueServiceClient;
use api::{
    CreateQueueRequest, JobEvent, JobItem, JobSpec, JobStateCount, Queue, SubmitJobsRequest,
    WatchJobSetRequest,
};

/// What `make stubs-rust` made.
#[allow(clippy::all, dead_code)]
mod api {
    include!("../../../../build/stubs/rust/argosy/api/v1/argosy.api.v1.rs");
}

const JOB_COUNT: i64 = 10;
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_PAUSE: Duration = Duration::from_secs(2);
const MAX_ATTEMPTS: u32 = 20; // in a row without an answer, about half a minute

const MANIFEST: &str = r#"{
  "apiVersion": "v1",
  "kind": "Pod",
  "metadata": {"annotations": {"argosy.dev/simulated-run-time": "1s-2s"}},
  "spec": {
    "restartPolicy": "Never",
    "securityContext": {"runAsNonRoot": true, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [{
      "name": "main",
      "image": "busybox:1.36",
      "command": ["sleep", "1"],
      "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
      "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}
    }]
  }
}"#;

type Counts = HashMap<String, i64>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run() -> Result<bool, Box<dyn std::error::Error>> {
    let server = environment("ARGOSY_SERVER", "127.0.0.1:50051");
    let queue = environment("ARGOSY_QUEUE", "quick-start");
    let job_set = format!(
        "rust-{}",
        SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos()
    );
    let channel = Endpoint::from_shared(format!("http://{server}"))?.connect_lazy();

    create_queue(QueueServiceClient::new(channel.clone()), &queue).await?;
    submit_jobs(JobServiceClient::new(channel.clone()), &queue, &job_set).await?;
    let counts = watch_job_set(EventServiceClient::new(channel), &queue, &job_set).await?;
    println!("{}", summary(&counts));
    Ok(count(&counts, "succeeded") == JOB_COUNT)
}

/// Makes the queue unless there is one by its name.
async fn create_queue(queues: QueueServiceClient<Channel>, name: &str) -> Result<(), Status> {
    let queue = Queue {
        name: name.to_owned(),
        ..Default::default()
    };
    let answer = repeat(|| {
        let (mut queues, queue) = (queues.clone(), queue.clone());
        async move {
            queues
                .create_queue(timed(CreateQueueRequest { queue: Some(queue) }))
                .await
        }
    })
    .await;
    match answer {
        Err(status) if status.code() != Code::AlreadyExists => return Err(status),
        _ => println!("queue {name}"), // one with other settings will do
    }
    Ok(())
}

/// Submits ten jobs of one spec. Their client ids make it safe to send the request again.
async fn submit_jobs(
    jobs: JobServiceClient<Channel>,
    queue: &str,
    job_set: &str,
) -> Result<(), Status> {
    let request = SubmitJobsRequest {
        specs: vec![JobSpec {
            manifests: vec![MANIFEST.to_owned()],
            ..Default::default()
        }],
        items: (0..JOB_COUNT)
            .map(|index| JobItem {
                spec: 0,
                queue: queue.to_owned(),
                job_set: job_set.to_owned(),
                client_id: format!("{job_set}-{index}"),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let answer = repeat(|| {
        let (mut jobs, request) = (jobs.clone(), request.clone());
        async move { jobs.submit_jobs(timed(request)).await }
    })
    .await?;
    println!(
        "submitted {} jobs to job set {job_set}",
        answer.job_ids.len()
    );
    Ok(())
}

/// Prints every event once until all jobs have ended, and returns how many are in which state. A broken stream is opened
/// again at the cursor of the last batch.
async fn watch_job_set(
    mut events: EventServiceClient<Channel>,
    queue: &str,
    job_set: &str,
) -> Result<Counts, Status> {
    let mut request = WatchJobSetRequest {
        queue: queue.to_owned(),
        job_set: job_set.to_owned(),
        until_finished: true,
        ..Default::default()
    };
    let mut counts = Counts::new();
    let mut failures = 0;
    loop {
        let end = match events.watch_job_set(request.clone()).await {
            Err(status) => Err(status),
            Ok(response) => {
                let mut stream = response.into_inner();
                loop {
                    match stream.message().await {
                        Ok(Some(batch)) => {
                            batch.events.iter().for_each(print);
                            request.cursor = batch.cursor;
                            counts = batch
                                .state_counts
                                .iter()
                                .map(|count| (state_name(count), count.job_count))
                                .collect();
                            failures = 0;
                        }
                        Ok(None) => break Ok(()),
                        Err(status) => break Err(status),
                    }
                }
            }
        };
        let reason = match end {
            Ok(()) if is_finished(&counts) => return Ok(counts),
            Ok(()) => Status::unavailable("ended by the server"),
            Err(status) if !is_passing(&status) => return Err(status),
            Err(status) => status,
        };
        failures += 1;
        if failures == MAX_ATTEMPTS {
            return Err(reason);
        }
        eprintln!("stream ended ({}), resuming", reason.message());
        pause(failures).await;
    }
}

fn state_name(count: &JobStateCount) -> String {
    let name = count.state().as_str_name();
    name.strip_prefix("JOB_STATE_")
        .unwrap_or(name)
        .to_lowercase()
}

fn print(event: &JobEvent) {
    let name = event.kind().as_str_name();
    let kind = name
        .strip_prefix("JOB_EVENT_KIND_")
        .unwrap_or(name)
        .to_lowercase();
    println!("{:4} {} {kind} {}", event.number, event.job_id, event.node);
}

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}

/// Makes a call again while the server cannot be reached; every mutation of Argosy may be repeated.
async fn repeat<T, F>(mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let mut failures = 0;
    loop {
        match call().await {
            Ok(response) => return Ok(response.into_inner()),
            Err(status) => {
                failures += 1;
                if !is_passing(&status) || failures == MAX_ATTEMPTS {
                    return Err(status);
                }
                pause(failures).await;
            }
        }
    }
}

/// Whether a status says nothing against trying again. A connection that breaks inside a message is UNKNOWN or INTERNAL
/// to tonic, with the transport's error as its source.
fn is_passing(status: &Status) -> bool {
    use std::error::Error;
    matches!(
        status.code(),
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled
    ) || status.source().is_some()
}

async fn pause(failures: u32) {
    tokio::time::sleep(MAX_PAUSE.min(Duration::from_millis(50 << failures.min(10)))).await;
}

fn count(counts: &Counts, state: &str) -> i64 {
    counts.get(state).copied().unwrap_or(0)
}

fn is_finished(counts: &Counts) -> bool {
    !counts.is_empty()
        && ["queued", "leased", "running"]
            .iter()
            .all(|state| count(counts, state) == 0)
}

/// Reads as in "9 succeeded, 1 failed".
fn summary(counts: &Counts) -> String {
    let mut states: Vec<_> = counts.iter().filter(|(_, count)| **count > 0).collect();
    states.sort();
    states
        .iter()
        .map(|(state, count)| format!("{count} {state}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn environment(name: &str, fallback: &str) -> String {
    env::var(name)
        .ok()
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| fallback.to_owned())
}
