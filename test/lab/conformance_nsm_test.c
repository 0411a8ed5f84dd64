/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the five scenarios of nurseries promise on workers holds in the lab under every
 * strategy.
 * Method: those tests themselves, run by conform.h.
 */
#include "lab/conform.h"

#define scenario scenario_10_1_basic_completion
#include "spec/nsm_10_1_basic_completion_test.c"
#undef scenario

#define scenario scenario_10_2_child_error
#include "spec/nsm_10_2_child_error_test.c"
#undef scenario

#define scenario scenario_10_3_explicit_cancel
#include "spec/nsm_10_3_explicit_cancel_test.c"
#undef scenario

#define scenario scenario_10_4_nested_cancel
#include "spec/nsm_10_4_nested_cancel_test.c"
#undef scenario

#define scenario scenario_10_5_lifo_cleanup
#include "spec/nsm_10_5_lifo_cleanup_test.c"
#undef scenario
