// SPDX-License-Identifier: Apache-2.0
// Reads objects, also those with invalid fields.
#include "reconciler/read_objects.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "crds/block.h"
#include "crds/names.h"
#include "crds/object_meta.h"
#include "crds/reservation.h"
#include "k8sclient/text_at.h"

namespace berth::reconciler {

using k8sclient::TextAt;
using k8sclient::ValueAt;
using nlohmann::json;

Expected<SeenPool> ReadPool(json object) {
  auto meta = crds::ParseObjectMeta(object, crds::kPoolKind);
  if (!meta) return std::unexpected(std::move(meta.error()));
  SeenPool seen;
  seen.meta = *std::move(meta);
  seen.created = TextAt(ValueAt(object, "metadata"), "creationTimestamp");
  auto pool = crds::ParsePool(object);
  if (pool) {
    seen.pool = *std::move(pool);
  } else {
    seen.problem = pool.error().message;
  }
  // The controller writes an unreadable status anew.
  seen.status = crds::ParsePoolStatus(object).value_or(crds::PoolStatus());
  seen.object = std::make_shared<const json>(std::move(object));
  return seen;
}

Expected<crds::Space> ReadSpace(json object) {
  auto meta = crds::ParseObjectMeta(object, crds::kSpaceKind);
  if (!meta) return std::unexpected(std::move(meta.error()));
  auto space = crds::ParseSpace(std::move(object));
  if (space) return space;
  return crds::Space{.meta = *std::move(meta), .problem = std::move(space.error().message)};
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): all four have one type
Expected<SeenReservation> ReadReservation(json object) {
  auto meta = crds::ParseObjectMeta(object, crds::kReservationKind);
  if (!meta) return std::unexpected(std::move(meta.error()));
  SeenReservation seen{.name = meta->name, .space = TextAt(ValueAt(object, "spec"), "space")};
  if (seen.space.empty()) seen.space = ipam::kDefaultSpace;
  auto reservation = crds::ParseReservation(object);
  if (!reservation) {
    seen.problem = reservation.error().message;
    return seen;
  }
  seen.space = std::move(reservation->space);
  seen.addresses = std::move(reservation->addresses);
  seen.expires_ms = reservation->expires_ms;
  return seen;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): all four have one type
Expected<SeenBlock> ReadBlock(json object) {
  auto block = crds::ParseBlock(object);
  if (block) return SeenAs(*std::move(block));
  auto meta = crds::ParseObjectMeta(object, crds::kBlockKind);
  if (!meta) return std::unexpected(std::move(meta.error()));
  const auto identity = crds::ParseBlockName(meta->name);
  if (!identity) return std::unexpected(identity.error());
  return SeenBlock{.name = std::move(meta->name),
                   .uid = std::move(meta->uid),
                   .resource_version = std::move(meta->resource_version),
                   .space = identity->space,
                   .cidr = identity->cidr,
                   .pool_uid = TextAt(ValueAt(object, "spec"), "poolUID"),
                   .block = nullptr,
                   .problem = block.error().message,
                   .entries = {}};
}

SeenBlock SeenAs(ipam::Block block) {
  const EntryCounts entries = CountEntries(block);
  const auto view = std::make_shared<const ipam::Block>(std::move(block));
  return {.name = view->name,
          .uid = view->uid,
          .resource_version = view->resource_version,
          .space = view->space,
          .cidr = view->cidr,
          .pool_uid = view->pool_uid,
          .block = view,
          .problem = {},
          .entries = entries};
}

}  // namespace berth::reconciler
