// Makes a queue, submits ten jobs, watches them until all have ended and tells how.
//
// Exits with 0 if all succeeded, with 1 if some did not, and with 2 if the server could not be used.
using Argosy.Api.V1;
using Grpc.Core;
using Grpc.Net.Client;

const int JobCount = 10;
const int MaxAttempts = 20; // in a row without an answer, about half a minute
const string Manifest = """
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

var server = ReadEnvironment("ARGOSY_SERVER", "127.0.0.1:50051");
var queue = ReadEnvironment("ARGOSY_QUEUE", "quick-start");
var jobSet = $"csharp-{DateTimeOffset.UtcNow.ToUnixTimeMilliseconds()}";

using var channel = GrpcChannel.ForAddress($"http://{server}");
try
{
    await CreateQueueAsync(new QueueService.QueueServiceClient(channel), queue);
    await SubmitJobsAsync(new JobService.JobServiceClient(channel), queue, jobSet);
    var counts = await WatchJobSetAsync(new EventService.EventServiceClient(channel), queue, jobSet);
    Console.WriteLine(Summarize(counts));
    return counts.GetValueOrDefault("succeeded") == JobCount ? 0 : 1;
}
catch (RpcException error)
{
    Console.Error.WriteLine($"error: {error.Status}");
    return 2;
}

// Makes the queue unless there is one by its name.
static async Task CreateQueueAsync(QueueService.QueueServiceClient queues, string name)
{
    var request = new CreateQueueRequest { Queue = new Queue { Name = name } };
    try
    {
        await RepeatAsync(() => queues.CreateQueueAsync(request, deadline: Deadline()).ResponseAsync);
    }
    catch (RpcException error) when (error.StatusCode == StatusCode.AlreadyExists)
    {
        // One with other settings will do.
    }
    Console.WriteLine($"queue {name}");
}

// Submits ten jobs of one spec. Their client ids make it safe to send the request again.
static async Task SubmitJobsAsync(JobService.JobServiceClient jobs, string queue, string jobSet)
{
    var request = new SubmitJobsRequest
    {
        Specs = { new JobSpec { Manifests = { Manifest } } },
        Items =
        {
            Enumerable.Range(0, JobCount).Select(index => new JobItem
            {
                Spec = 0,
                Queue = queue,
                JobSet = jobSet,
                ClientId = $"{jobSet}-{index}",
            }),
        },
    };
    var response = await RepeatAsync(() => jobs.SubmitJobsAsync(request, deadline: Deadline()).ResponseAsync);
    Console.WriteLine($"submitted {response.JobIds.Count} jobs to job set {jobSet}");
}

// Prints every event once until all jobs have ended, and returns how many are in which state. A broken stream is opened
// again at the cursor of the last batch.
static async Task<IReadOnlyDictionary<string, long>> WatchJobSetAsync(
    EventService.EventServiceClient events, string queue, string jobSet)
{
    var request = new WatchJobSetRequest { Queue = queue, JobSet = jobSet, UntilFinished = true };
    IReadOnlyDictionary<string, long> counts = new Dictionary<string, long>();
    for (var failures = 1; ; failures++)
    {
        var reason = "ended by the server";
        try
        {
            using var call = events.WatchJobSet(request);
            await foreach (var batch in call.ResponseStream.ReadAllAsync())
            {
                foreach (var item in batch.Events)
                {
                    Console.WriteLine($"{item.Number,4} {item.JobId} {item.Kind.ToString().ToLowerInvariant()} {item.Node}");
                }
                request.Cursor = batch.Cursor;
                counts = batch.StateCounts.ToDictionary(count => count.State.ToString().ToLowerInvariant(), count => count.JobCount);
                failures = 0;
            }
            if (IsFinished(counts))
            {
                return counts;
            }
        }
        catch (RpcException error) when (IsPassing(error) && failures < MaxAttempts)
        {
            reason = error.Status.Detail;
        }
        if (failures >= MaxAttempts)
        {
            throw new RpcException(new Status(StatusCode.Unavailable, "the server ends every stream at once"));
        }
        Console.Error.WriteLine($"stream ended ({reason}), resuming");
        await PauseAsync(failures);
    }
}

// Makes a call again while the server cannot be reached; every mutation of Argosy may be repeated.
static async Task<T> RepeatAsync<T>(Func<Task<T>> call)
{
    for (var failures = 1; ; failures++)
    {
        try
        {
            return await call();
        }
        catch (RpcException error) when (IsPassing(error) && failures < MaxAttempts)
        {
            await PauseAsync(failures);
        }
    }
}

// Whether an error says nothing against trying again.
static bool IsPassing(RpcException error) =>
    error.StatusCode is StatusCode.Unavailable or StatusCode.DeadlineExceeded or StatusCode.Cancelled;

static bool IsFinished(IReadOnlyDictionary<string, long> counts) =>
    counts.Count > 0 && new[] { "queued", "leased", "running" }.All(state => counts.GetValueOrDefault(state) == 0);

static Task PauseAsync(int failures) =>
    Task.Delay(TimeSpan.FromMilliseconds(Math.Min(50 << Math.Min(failures, 10), 2000)));

static DateTime Deadline() => DateTime.UtcNow.AddSeconds(30);

// Reads as in "9 succeeded, 1 failed".
static string Summarize(IReadOnlyDictionary<string, long> counts) =>
    string.Join(", ", counts.Where(pair => pair.Value > 0).OrderBy(pair => pair.Key).Select(pair => $"{pair.Value} {pair.Key}"));

static string ReadEnvironment(string name, string fallback) =>
    Environment.GetEnvironmentVariable(name) is { Length: > 0 } value ? value : fallback;
