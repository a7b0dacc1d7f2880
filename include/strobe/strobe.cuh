// SPDX-License-Identifier: MIT
/// @file
/// Everything. For trying out; programs include what they call.
#pragma once

#include "append.cuh"
#include "attention.hpp"
#include "decode.cuh"
#include "device.cuh"
#include "kv.hpp"
#include "mask.hpp"
#include "merge.cuh"
#include "policy.hpp"
#include "prefill.cuh"
#include "schedule.hpp"
#include "score.hpp"
#include "status.hpp"
#include "types.hpp"
#include "version.hpp"
