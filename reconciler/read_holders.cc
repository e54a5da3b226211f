// SPDX-License-Identifier: Apache-2.0
// Reads the fields that matter.
#include "reconciler/read_holders.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/resource_version.h"
#include "crds/allocation.h"
#include "crds/names.h"
#include "crds/object_meta.h"
#include "crds/quantity.h"
#include "json/field_reader.h"
#include "k8sclient/text_at.h"
#include "k8sclient/verbs.h"
#include "reconciler/pod_requests.h"

namespace berth::reconciler {

namespace {

using nlohmann::json;

// The kubelet sets it on the mirror of a static pod.
constexpr const char* kMirrorAnnotation = "kubernetes.io/config.mirror";
// People set it. Its value names the resources of which the pod needs an address.
constexpr const char* kResourcesAnnotation = "ipam.berth.dev/resources";
// The kubelet sets it (Kubernetes 1.29 and newer): True from when a sandbox has its network until that sandbox ends.
constexpr std::string_view kSandboxCondition = "PodReadyToStartContainers";
// kube-scheduler sets it.
constexpr std::string_view kScheduledCondition = "PodScheduled";
constexpr std::string_view kUnschedulable = "Unschedulable";
constexpr std::string_view kForegroundFinalizer = "foregroundDeletion";
constexpr const char* kOutOfService = "node.kubernetes.io/out-of-service";
constexpr std::int64_t kGraceMaxSeconds = std::int64_t{1} << 31;
// The readers below accept lists and texts of any length (kUnbounded): the API server limits the size of an object, but
// neither the number of a pod's conditions nor their length. If ReadPod refused a pod, the pod would count as gone.

// Leaves out addresses that cannot be read. It does not leave out the whole pod, because a pod that is not in the world
// counts as gone.
std::vector<ipam::Address> ReadAddresses(const FieldReader& status) {
  std::vector<ipam::Address> addresses;
  status.ForEach("podIPs", kUnbounded, [&addresses](const FieldReader& one) {
    const auto address = ipam::Address::Parse(one.String("ip", kUnbounded));
    if (address) addresses.push_back(*address);
  });
  return addresses;
}

void ReadNumbers(const json& status, SeenNode& node) {
  const json& capacity = k8sclient::ValueAt(status, "capacity");
  const json& allocatable = k8sclient::ValueAt(status, "allocatable");
  for (const auto& [resource, units] : crds::ReadUnits(capacity)) node.numbers[resource].capacity = units;
  for (const auto& [resource, units] : crds::ReadUnits(allocatable)) node.numbers[resource].allocatable = units;
  node.pods_max = crds::ParseUnits(k8sclient::TextAt(allocatable, "pods")).value_or(0);
}

}  // namespace

std::string PodPath(const std::string& name_space, const std::string& name) {
  return k8sclient::Path({"api", "v1", "namespaces", name_space, "pods", name});
}

k8sclient::FieldRule FieldsOfPods() {
  const k8sclient::FieldRule spec{.skipped = {"ephemeralContainers", "volumes"},
                                  .members = {{"containers", {.only = {"resources"}}},
                                              {"initContainers", {.only = {"resources", "restartPolicy"}}}}};
  const k8sclient::FieldRule status{
      .skipped = {"containerStatuses", "ephemeralContainerStatuses", "initContainerStatuses"}};
  return {.members = {{"spec", spec}, {"status", status}}};
}

k8sclient::FieldRule FieldsOfNodes() {
  return {.members = {{"status", {.skipped = {"images", "volumesAttached", "volumesInUse", "nodeInfo"}}}}};
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): all readers have one type
Expected<SeenPod> ReadPod(json object) {
  auto meta = crds::ParseObjectMeta(object, "Pod");
  if (!meta) return std::unexpected(std::move(meta.error()));
  const auto annotations = crds::ParseAnnotations(object, "Pod");
  if (!annotations) return std::unexpected(annotations.error());
  Problem problem{.object = "Pod " + meta->name_space + "/" + meta->name};
  const FieldReader document(object, problem);
  const FieldReader metadata = document.Object("metadata");
  const FieldReader spec = document.Object("spec");
  const FieldReader status = document.Object("status");
  const std::string phase = status.String("phase", kUnbounded);
  // Accept any number, because Kubernetes does; `grace` is limited below.
  const auto seconds_of = [](const FieldReader& fields, const char* name) {
    using Limits = std::numeric_limits<std::int64_t>;
    return fields.Integer(name, Limits::min(), Limits::max());
  };
  const auto ordinary = seconds_of(spec, "terminationGracePeriodSeconds");
  // A client that deletes a pod may give the pod more time than the pod's spec asks for.
  const auto deletion = seconds_of(metadata, "deletionGracePeriodSeconds");
  SeenPod pod{.name_space = std::move(meta->name_space),
              .name = std::move(meta->name),
              .uid = std::move(meta->uid),
              .node = spec.String("nodeName", crds::kNameLengthMax),
              .addresses = ReadAddresses(status),
              .is_terminal = phase == "Succeeded" || phase == "Failed",
              .is_host_network = spec.Bool("hostNetwork", false),
              .is_cascading = meta->deleting() && std::ranges::count(meta->finalizers, kForegroundFinalizer) > 0};
  const std::int64_t grace = std::max(ordinary.value_or(pod.grace.count()), deletion.value_or(0));
  pod.grace = std::chrono::seconds(std::clamp(grace, std::int64_t{0}, kGraceMaxSeconds));
  status.ForEach("conditions", kUnbounded, [&pod](const FieldReader& condition) {
    const std::string type = condition.String("type", kUnbounded);
    if (type == kSandboxCondition) pod.has_sandbox = condition.String("status", kUnbounded) == "True";
    if (type != kScheduledCondition) return;
    pod.is_unschedulable =
        condition.String("status", kUnbounded) == "False" && condition.String("reason", kUnbounded) == kUnschedulable;
  });
  // The scheduler places no pod that has ended or that somebody deleted. A finalizer may keep such a pod for long.
  if (pod.is_terminal || meta->deleting()) pod.is_unschedulable = false;
  const json& pod_spec = k8sclient::ValueAt(object, "spec");
  pod.requests = ReadRequests(pod_spec);
  if (pod.waits_for_node()) pod.placement = SharedPlacement(ReadPlacement(pod_spec));
  // Kubernetes allows any text as an owner's UID, and any number of owners.
  metadata.ForEach("ownerReferences", kUnbounded, [&pod](const FieldReader& owner) {
    if (!owner.Bool("controller", false)) return;
    // The hash includes the namespace: if a pod names the UID of an owner in another namespace, it does not count among
    // that owner's pods.
    pod.owner = std::hash<std::string>()(pod.name_space + "/" + owner.String("uid", kUnbounded));
  });
  const auto resources = annotations->find(kResourcesAnnotation);
  if (resources != annotations->end())
    pod.named = std::make_shared<const std::vector<UnitRequest>>(ParseResources(resources->second));
  const auto mirror = annotations->find(kMirrorAnnotation);
  // Ignores a longer text: no entry has it as the UID of a static pod, and the controller would keep it in memory.
  if (mirror != annotations->end() && mirror->second.size() <= crds::kUidLengthMax) pod.config_hash = mirror->second;
  if (problem.error) return std::unexpected(std::move(*problem.error));
  return pod;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): all readers have one type
Expected<SeenNode> ReadNode(json object) {
  auto meta = crds::ParseObjectMeta(object, "Node");
  if (!meta) return std::unexpected(std::move(meta.error()));
  Problem problem{.object = "Node " + meta->name};
  const FieldReader document(object, problem);
  SeenNode node{.name = std::move(meta->name),
                .uid = std::move(meta->uid),
                .resource_version = std::move(meta->resource_version),
                .labels = crds::LabelsOf(object)};
  std::string ready;
  document.Object("status").ForEach("conditions", kUnbounded, [&ready](const FieldReader& condition) {
    if (condition.String("type", kUnbounded) == "Ready") ready = condition.String("status", kUnbounded);
  });
  node.is_ready = ready == "True";
  // A kubelet that starts again reports Ready=False before it reports Ready=True. Then the machine is on, even if the
  // Node still has the taint.
  const bool is_heard = node.is_ready || ready == "False";
  document.Object("spec").ForEach("taints", kUnbounded, [&](const FieldReader& taint) {
    if (taint.String("key", kUnbounded) == kOutOfService && !is_heard) node.is_out_of_service = true;
  });
  node.taints = ReadTaints(k8sclient::ValueAt(object, "spec"));
  ReadNumbers(k8sclient::ValueAt(object, "status"), node);
  if (problem.error) return std::unexpected(std::move(*problem.error));
  return node;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): all readers have one type
Expected<SeenAllocation> ReadAllocation(json object) {
  auto meta = crds::ParseObjectMeta(object, crds::kAllocationKind);
  if (!meta) return std::unexpected(std::move(meta.error()));
  SeenAllocation allocation{.name_space = std::move(meta->name_space),
                            .name = meta->name,
                            .uid = std::move(meta->uid),
                            .attachment = crds::AttachmentOfName(meta->name).value_or(ipam::Attachment()),
                            .is_deleting = meta->deleting()};
  const auto labels = crds::LabelsOf(object);
  allocation.lacks_ipv4 = !labels.contains(std::string(crds::kIPv4AddressLabel));
  allocation.lacks_ipv6 = !labels.contains(std::string(crds::kIPv6AddressLabel));
  return allocation;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): all readers have one type
Expected<SeenLease> ReadLease(json object) {
  auto meta = crds::ParseObjectMeta(object, "Lease");
  if (!meta) return std::unexpected(std::move(meta.error()));
  Problem problem{.object = "Lease " + meta->name};
  const FieldReader document(object, problem);
  SeenLease lease{.node = std::move(meta->name),
                  .renewed = document.Object("spec").String("renewTime", kUnbounded),
                  .version = ParseVersion(meta->resource_version)};
  if (problem.error) return std::unexpected(std::move(*problem.error));
  return lease;
}

}  // namespace berth::reconciler
