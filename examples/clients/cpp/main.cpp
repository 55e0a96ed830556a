// Makes a queue, submits ten jobs, watches them until all have ended and tells how.
//
// Exits with 0 if all succeeded, with 1 if some did not, and with 2 if the server could not be used.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "argosy/api/v1/event.grpc.pb.h"
#include "argosy/api/v1/job.grpc.pb.h"
#include "argosy/api/v1/queue.grpc.pb.h"

namespace api = argosy::api::v1;
using Counts = std::map<std::string, std::int64_t>;
using namespace std::chrono_literals;

namespace {

constexpr int kJobCount = 10;
constexpr auto kCallTimeout = 30s;
constexpr std::chrono::milliseconds kMaxPause = 2s;
constexpr int kMaxAttempts = 20;  // in a row without an answer, about half a minute

constexpr std::string_view kManifest = R"({
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
})";

class RpcError : public std::runtime_error {
 public:
  RpcError(const std::string& what, const grpc::Status& status) : std::runtime_error(what + ": " + status.error_message()) {}
};

// Whether a status says nothing against trying again.
bool IsPassing(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
      return true;
    default:
      return false;
  }
}

void Pause(int failures) {
  std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(50ms * (1 << std::min(failures, 10)), kMaxPause));
}

// Makes a call again while the server cannot be reached; every mutation of Argosy may be repeated.
template <typename Call>
grpc::Status Repeat(Call call) {
  for (int failures = 1;; ++failures) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
    const grpc::Status status = call(&context);
    if (!IsPassing(status) || failures == kMaxAttempts) return status;
    Pause(failures);
  }
}

// Makes the queue unless there is one by its name.
void CreateQueue(api::QueueService::Stub& queues, const std::string& name) {
  api::CreateQueueRequest request;
  request.mutable_queue()->set_name(name);
  api::CreateQueueResponse response;
  const auto status = Repeat([&](auto* context) { return queues.CreateQueue(context, request, &response); });
  // ALREADY_EXISTS is a queue with other settings: use it.
  if (!status.ok() && status.error_code() != grpc::StatusCode::ALREADY_EXISTS) throw RpcError("create queue", status);
  std::cout << "queue " << name << std::endl;
}

// Submits ten jobs of one spec. Their client ids make it safe to send the request again.
void SubmitJobs(api::JobService::Stub& jobs, const std::string& queue, const std::string& job_set) {
  api::SubmitJobsRequest request;
  request.add_specs()->add_manifests(kManifest.data(), kManifest.size());
  for (int i = 0; i < kJobCount; ++i) {
    auto* item = request.add_items();
    item->set_spec(0);
    item->set_queue(queue);
    item->set_job_set(job_set);
    item->set_client_id(job_set + "-" + std::to_string(i));
  }
  api::SubmitJobsResponse response;
  const auto status = Repeat([&](auto* context) { return jobs.SubmitJobs(context, request, &response); });
  if (!status.ok()) throw RpcError("submit", status);
  std::cout << "submitted " << response.job_ids_size() << " jobs to job set " << job_set << std::endl;
}

// The name of an enum's value without its prefix, in lower case.
std::string LowerName(std::string name, std::string_view prefix) {
  name.erase(0, prefix.size());
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

void Print(const api::JobEvent& event) {
  const std::string kind = LowerName(api::JobEventKind_Name(event.kind()), "JOB_EVENT_KIND_");
  std::cout << std::setw(4) << event.number() << ' ' << event.job_id() << ' ' << kind << ' ' << event.node() << std::endl;
}

bool IsFinished(const Counts& counts) {
  const auto count = [&](const char* state) {
    const auto found = counts.find(state);
    return found == counts.end() ? 0 : found->second;
  };
  return !counts.empty() && count("queued") + count("leased") + count("running") == 0;
}

// Prints every event once until all jobs have ended, and returns how many are in which state. A broken stream is opened
// again at the cursor of the last batch.
Counts WatchJobSet(api::EventService::Stub& events, const std::string& queue, const std::string& job_set) {
  api::WatchJobSetRequest request;
  request.set_queue(queue);
  request.set_job_set(job_set);
  request.set_until_finished(true);
  Counts counts;
  for (int failures = 1;; ++failures) {
    grpc::ClientContext context;
    const auto stream = events.WatchJobSet(&context, request);
    for (api::WatchJobSetResponse batch; stream->Read(&batch);) {
      for (const auto& event : batch.events()) Print(event);
      request.set_cursor(batch.cursor());
      counts.clear();
      for (const auto& count : batch.state_counts()) {
        counts[LowerName(api::JobState_Name(count.state()), "JOB_STATE_")] = count.job_count();
      }
      failures = 0;
    }
    const auto status = stream->Finish();
    if (status.ok() && IsFinished(counts)) return counts;
    if ((!status.ok() && !IsPassing(status)) || failures == kMaxAttempts) throw RpcError("watch", status);
    std::cerr << "stream ended (" << status.error_message() << "), resuming" << std::endl;
    Pause(failures);
  }
}

// Reads as in "9 succeeded, 1 failed".
std::string Summary(const Counts& counts) {
  std::string text;
  for (const auto& [state, count] : counts) {
    if (count > 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + state;
  }
  return text;
}

std::string Environment(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : fallback;
}

}  // namespace

int main() {
  const auto server = Environment("ARGOSY_SERVER", "127.0.0.1:50051");
  const auto queue = Environment("ARGOSY_QUEUE", "quick-start");
  const auto job_set = "cpp-" + std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
  const auto channel = grpc::CreateChannel(server, grpc::InsecureChannelCredentials());
  try {
    CreateQueue(*api::QueueService::NewStub(channel), queue);
    SubmitJobs(*api::JobService::NewStub(channel), queue, job_set);
    const auto counts = WatchJobSet(*api::EventService::NewStub(channel), queue, job_set);
    std::cout << Summary(counts) << std::endl;
    const auto succeeded = counts.find("succeeded");
    return succeeded != counts.end() && succeeded->second == kJobCount ? 0 : 1;
  } catch (const RpcError& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 2;
  }
}
