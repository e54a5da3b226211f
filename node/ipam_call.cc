// SPDX-License-Identifier: Apache-2.0
// Makes an ADD request from the configuration, and the printed result from addresses.
#include "node/ipam_call.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "cni/args.h"
#include "cni/attachment.h"
#include "cni/pool_names.h"
#include "cni/resolv_conf.h"
#include "cni/result.h"
#include "k8sclient/client_config.h"

namespace berth::node {

std::int64_t StartMillis(std::chrono::system_clock::time_point now, BootNanos age) {
  using std::chrono::microseconds;  // the difference of two times in nanoseconds could overflow
  const auto since = std::chrono::floor<microseconds>(now.time_since_epoch());
  const auto before = std::chrono::ceil<microseconds>(std::chrono::nanoseconds(age));
  return std::chrono::floor<std::chrono::milliseconds>(since - before).count();
}

IpamCall::IpamCall(const cni::Environment& environment, const cni::NetworkConfig& config, ipam::BlockStore& store,
                   ipam::Runtime& runtime)
    : environment_(environment),
      config_(config),
      store_(store),
      attachment_(cni::MakeAttachment(config.name, environment.container_id, environment.ifname)),
      engine_(store, runtime) {}

Expected<ipam::AddRequest> IpamCall::MakeAddRequest() const {
  const auto args = cni::ParseArgs(environment_.args);
  if (!args) return std::unexpected(args.error());
  auto requested = cni::RequestedAddresses(config_, *args);
  if (!requested) return std::unexpected(requested.error());
  ipam::AddRequest request{.attachment = attachment_,
                           .interface = environment_.ifname,
                           .pod_namespace = args->pod_namespace,
                           .pod = args->pod_name,
                           .uid = args->pod_uid,
                           .pools = {},
                           .requested = *std::move(requested)};
  auto pools = cni::ChosenPools(config_, environment_.ifname);
  if (!pools) return std::unexpected(pools.error());
  request.pools = *std::move(pools);
  std::ranges::copy_if(request.pools, std::back_inserter(request.by_annotation), [this](const std::string& pool) {
    return std::ranges::find(config_.ipam.pools, pool) == config_.ipam.pools.end();
  });
  return request;
}

Expected<std::string> IpamCall::Print(const ipam::AddResult& added, const std::optional<ipam::Dns>& dns) const {
  cni::Result result{.addresses = {}, .routes = added.routes, .dns = added.dns};
  for (const ipam::AssignedAddress& assigned : added.addresses) {
    result.addresses.push_back(
        {.address = assigned.address, .prefix_length = assigned.prefix_length, .gateway = assigned.gateway});
  }
  if (config_.ipam.routes) result.routes = *config_.ipam.routes;
  if (dns) result.dns = *dns;
  return cni::ResultJson(result, config_.version);
}

Expected<AddAnswer> IpamCall::Add(const ipam::AddRequest& request) {
  std::optional<ipam::Dns> dns = config_.ipam.dns;
  if (!dns && !config_.ipam.resolv_conf.empty()) {
    // Read the file before the ADD takes an address.
    const auto text = k8sclient::ReadWholeFile(config_.ipam.resolv_conf);
    if (!text) return std::unexpected(text.error().Within("ipam.resolvConf"));
    dns = cni::ParseResolvConf(*text);
  }
  const auto added = engine_.Add(request);
  if (!added) return std::unexpected(added.error());
  auto text = Print(*added, dns);
  if (text) return AddAnswer{.text = *std::move(text), .is_new = added->is_new};
  Error error = text.error();
  if (added->is_new) {
    if (const auto taken_back = engine_.Del(attachment_); !taken_back) {
      error.details += "; giving the address back: " + taken_back.error().message;
    }
  }
  return std::unexpected(std::move(error));
}

std::unexpected<Error> IpamCall::HoldsNothing() const {
  return Fail(ErrorCode::kNothingHeld,
              "container " + environment_.container_id + " interface " + environment_.ifname +
                  " holds no address of network " + config_.name,
              "its address was freed, or another plugin attached the container");
}

Expected<void> IpamCall::Check() {
  const auto held = engine_.Held(attachment_);
  if (!held) return std::unexpected(held.error());
  if (held->empty()) return HoldsNothing();
  const std::string whose = " of container " + environment_.container_id + " interface " + environment_.ifname;
  for (const ipam::HeldAddress& own : *held) {
    const auto previous = std::ranges::find(config_.previous, own.address, &cni::PreviousAddress::address);
    if (previous == config_.previous.end()) {
      return Fail(ErrorCode::kInvalid, "address " + own.address.ToString() + whose + " is not in prevResult");
    }
    if (!previous->gateway) continue;
    const auto pools = store_.ReadPools({{own.pool}}, ipam::Freshness::kHint);
    if (!pools) return std::unexpected(pools.error());
    if (pools->empty() || !pools->front()->gateway || pools->front()->gateway == previous->gateway) continue;
    return Fail(ErrorCode::kInvalid,
                "the gateway" + whose + " is " + previous->gateway->ToString() + " in prevResult, but " +
                    pools->front()->gateway->ToString() + " in pool " + own.pool);
  }
  return {};
}

Expected<void> IpamCall::CollectGarbage(const std::function<std::int64_t()>& listed_ms,
                                        const std::function<bool(const ipam::Attachment&)>& is_running,
                                        const std::function<std::vector<ipam::Attachment>()>& also) {
  if (!config_.valid_attachments) return {};
  std::set<ipam::Attachment> valid;
  for (const cni::ValidAttachment& attachment : *config_.valid_attachments) {
    valid.insert(cni::MakeAttachment(config_.name, attachment.container_id, attachment.ifname));
  }
  const auto keep = [&](const ipam::Attachment& attachment) {
    return valid.contains(attachment) || is_running(attachment);
  };
  const std::string network = cni::NetworkDigits(config_.name);
  std::vector<Error> errors = engine_.CollectGarbage(
      network, [&](const ipam::HeldEntry& entry) { return entry.since_ms >= listed_ms() || keep(entry.attachment); });
  for (const ipam::Attachment& attachment : also()) {
    if (!attachment.starts_with(network) || keep(attachment)) continue;
    if (const auto settled = engine_.Del(attachment); !settled) errors.push_back(settled.error());
  }
  if (errors.empty()) return {};
  Error all = errors.front();
  all.message = std::to_string(errors.size()) + " releases failed: " + all.message;
  for (std::size_t i = 1; i < errors.size(); ++i) all.message += "; " + errors[i].message;
  return std::unexpected(std::move(all));
}

}  // namespace berth::node
