//$ flx run FILE --device ref --in arg0=iota
//$ flx grad FILE --wrt arg0 --seed input | flx run - --device ref --in arg0=iota --in d_output=iota
//$ flx compare FILE --devices ref,cpu --in arg0=iota | tail -n 1
// The two largest of each row. Written by JAX.
module @jit_largest attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x5xf32>) -> (tensor<2x2xf32> {jax.result_info = "result[0]"}, tensor<2x2xi32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.sine %arg0 : tensor<2x5xf32>
    %values, %indices = chlo.top_k(%0, k = 2) : tensor<2x5xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)
    return %values, %indices : tensor<2x2xf32>, tensor<2x2xi32>
  }
}
//> out0: f32[2, 2]
//>   min 0.656987, max 0.989358, mean 0.849278
//>   0.909297, 0.841471, 0.989358, 0.656987
//> out1: i32[2, 2]
//>   min 1, max 3
//>   2, 1, 3, 2
//> out1: i32[2, 2]
//>   min 1, max 3
//>   2, 1, 3, 2
//> d_arg0: f32[2, 5]
//>   min -0.291, max 2.26171, mean 0.251101
//>   0, 0.540302, -0, -0, -0, 0, 0, 2.26171, ...
//> ref and cpu agree: 2 of 2 outputs within 1e-05
//! note: the gradient is that of the values of jax_top_k.mlir: stop_gradient and rules of functions are in programs that JAX exports for the platform fluxion
