/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h: the commands, each defined in the file of its name. */
#ifndef FLX_COMMANDS_H
#define FLX_COMMANDS_H

#include "command.h"

extern const command command_bench;
extern const command command_build;
extern const command command_chat;
extern const command command_check;
extern const command command_compare;
extern const command command_devices;
extern const command command_export;
extern const command command_generate;
extern const command command_grad;
extern const command command_gradcheck;
extern const command command_help;
extern const command command_hessian;
extern const command command_hvp;
extern const command command_import;
extern const command command_jac;
extern const command command_jvp;
extern const command command_kernel;
extern const command command_kernel_fuse;
extern const command command_kernel_optimise;
extern const command command_kernel_run;
extern const command command_kernel_vjp;
extern const command command_lower;
extern const command command_mixed;
extern const command command_quantise;
extern const command command_model;
extern const command command_ops;
extern const command command_pipeline;
extern const command command_plan;
extern const command command_predict;
extern const command command_replay;
extern const command command_rewrite;
extern const command command_run;
extern const command command_show;
extern const command command_taylor;
extern const command command_train;
extern const command command_vmap;

#endif
