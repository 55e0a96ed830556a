package dev.argosy.examples;

import dev.argosy.api.v1.CreateQueueRequest;
import dev.argosy.api.v1.EventServiceGrpc;
import dev.argosy.api.v1.JobEvent;
import dev.argosy.api.v1.JobItem;
import dev.argosy.api.v1.JobServiceGrpc;
import dev.argosy.api.v1.JobSpec;
import dev.argosy.api.v1.JobStateCount;
import dev.argosy.api.v1.Queue;
import dev.argosy.api.v1.QueueServiceGrpc;
import dev.argosy.api.v1.SubmitJobsRequest;
import dev.argosy.api.v1.WatchJobSetRequest;
import dev.argosy.api.v1.WatchJobSetResponse;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Iterator;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * Makes a queue, submits ten jobs, watches them until all have ended and tells how.
 *
 * <p>Exits with 0 if all succeeded, with 1 if some did not, and with 2 if the server could not be used.
 */
public final class QuickStart {
  private static final int JOB_COUNT = 10;
  private static final int CALL_TIMEOUT_SECONDS = 30;
  private static final int MAX_ATTEMPTS = 20; // in a row without an answer, about half a minute
  private static final String MANIFEST =
      """
      {
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
      }
      """;

  private final QueueServiceGrpc.QueueServiceBlockingStub queues;
  private final JobServiceGrpc.JobServiceBlockingStub jobs;
  private final EventServiceGrpc.EventServiceBlockingStub events;

  private QuickStart(ManagedChannel channel) {
    queues = QueueServiceGrpc.newBlockingStub(channel);
    jobs = JobServiceGrpc.newBlockingStub(channel);
    events = EventServiceGrpc.newBlockingStub(channel);
  }

  /** Runs the program. */
  public static void main(String[] arguments) throws InterruptedException {
    String server = environment("ARGOSY_SERVER", "127.0.0.1:50051");
    String queue = environment("ARGOSY_QUEUE", "quick-start");
    String jobSet = "java-" + System.currentTimeMillis();
    ManagedChannel channel = Grpc.newChannelBuilder(server, InsecureChannelCredentials.create()).build();
    int exitCode;
    try {
      QuickStart program = new QuickStart(channel);
      program.createQueue(queue);
      program.submitJobs(queue, jobSet);
      Map<String, Long> counts = program.watchJobSet(queue, jobSet);
      System.out.println(summary(counts));
      exitCode = counts.getOrDefault("succeeded", 0L) == JOB_COUNT ? 0 : 1;
    } catch (StatusRuntimeException error) {
      System.err.println("error: " + error.getMessage());
      exitCode = 2;
    } finally {
      channel.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
    }
    System.exit(exitCode);
  }

  /** Makes the queue unless there is one by its name. */
  private void createQueue(String name) throws InterruptedException {
    CreateQueueRequest request =
        CreateQueueRequest.newBuilder().setQueue(Queue.newBuilder().setName(name)).build();
    try {
      repeat(() -> queues.withDeadlineAfter(CALL_TIMEOUT_SECONDS, TimeUnit.SECONDS).createQueue(request));
    } catch (StatusRuntimeException error) {
      if (error.getStatus().getCode() != Status.Code.ALREADY_EXISTS) {
        throw error;
      } // else a queue with other settings: use it
    }
    System.out.println("queue " + name);
  }

  /** Submits ten jobs of one spec. Their client ids make it safe to send the request again. */
  private void submitJobs(String queue, String jobSet) throws InterruptedException {
    SubmitJobsRequest.Builder request =
        SubmitJobsRequest.newBuilder()
            .addSpecs(JobSpec.newBuilder().addManifests(MANIFEST));
    for (int i = 0; i < JOB_COUNT; i++) {
      request.addItems(
          JobItem.newBuilder().setSpec(0).setQueue(queue).setJobSet(jobSet).setClientId(jobSet + "-" + i));
    }
    SubmitJobsRequest built = request.build();
    int count =
        repeat(() -> jobs.withDeadlineAfter(CALL_TIMEOUT_SECONDS, TimeUnit.SECONDS).submitJobs(built))
            .getJobIdsCount();
    System.out.printf("submitted %d jobs to job set %s%n", count, jobSet);
  }

  /**
   * Prints every event once until all jobs have ended, and returns how many are in which state. A broken stream is
   * opened again at the cursor of the last batch.
   */
  private Map<String, Long> watchJobSet(String queue, String jobSet) throws InterruptedException {
    WatchJobSetRequest.Builder request =
        WatchJobSetRequest.newBuilder().setQueue(queue).setJobSet(jobSet).setUntilFinished(true);
    Map<String, Long> counts = Map.of();
    int failures = 0;
    while (true) {
      String reason = "ended by the server";
      try (Context.CancellableContext context = Context.current().withCancellation()) {
        Context previous = context.attach(); // leaving early ends the stream
        try {
          Iterator<WatchJobSetResponse> stream = events.watchJobSet(request.build());
          while (stream.hasNext()) {
            WatchJobSetResponse batch = stream.next();
            batch.getEventsList().forEach(QuickStart::print);
            request.setCursor(batch.getCursor());
            counts =
                batch.getStateCountsList().stream()
                    .collect(Collectors.toMap(QuickStart::stateName, JobStateCount::getJobCount));
            failures = 0;
          }
          if (isFinished(counts)) {
            return counts;
          }
        } catch (StatusRuntimeException error) {
          if (!isPassing(error) || failures + 1 == MAX_ATTEMPTS) {
            throw error;
          }
          reason = error.getMessage();
        } finally {
          context.detach(previous);
        }
      }
      failures++;
      if (failures == MAX_ATTEMPTS) {
        throw Status.UNAVAILABLE.withDescription("the server ends every stream at once").asRuntimeException();
      }
      System.err.printf("stream ended (%s), resuming%n", reason);
      pause(failures);
    }
  }

  private static String stateName(JobStateCount count) {
    return count.getState().name().replaceFirst("^JOB_STATE_", "").toLowerCase(Locale.ROOT);
  }

  private static void print(JobEvent event) {
    String kind = event.getKind().name().replaceFirst("^JOB_EVENT_KIND_", "").toLowerCase(Locale.ROOT);
    System.out.printf("%4d %s %s %s%n", event.getNumber(), event.getJobId(), kind, event.getNode());
  }

  /** Makes a call again while the server cannot be reached; every mutation of Argosy may be repeated. */
  private static <T> T repeat(Supplier<T> call) throws InterruptedException {
    for (int failures = 1; ; failures++) {
      try {
        return call.get();
      } catch (StatusRuntimeException error) {
        if (!isPassing(error) || failures == MAX_ATTEMPTS) {
          throw error;
        }
        pause(failures);
      }
    }
  }

  /** Returns whether an error says nothing against trying again. */
  private static boolean isPassing(StatusRuntimeException error) {
    return switch (error.getStatus().getCode()) {
      case UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED -> true;
      default -> false;
    };
  }

  private static boolean isFinished(Map<String, Long> counts) {
    return !counts.isEmpty()
        && counts.getOrDefault("queued", 0L) + counts.getOrDefault("leased", 0L) + counts.getOrDefault("running", 0L)
            == 0;
  }

  private static void pause(int failures) throws InterruptedException {
    TimeUnit.MILLISECONDS.sleep(Math.min(50L << Math.min(failures, 10), 2000L));
  }

  /** Reads as in "9 succeeded, 1 failed". */
  private static String summary(Map<String, Long> counts) {
    return new TreeMap<>(counts)
        .entrySet().stream()
            .filter(entry -> entry.getValue() > 0)
            .map(entry -> entry.getValue() + " " + entry.getKey())
            .collect(Collectors.joining(", "));
  }

  private static String environment(String name, String fallback) {
    return Optional.ofNullable(System.getenv(name)).filter(value -> !value.isEmpty()).orElse(fallback);
  }
}
