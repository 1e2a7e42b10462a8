//$ flx run FILE --device ref --in arg0=iota --in arg1=1
//$ flx grad FILE --wrt arg0 --seed input | flx run - --device ref --in arg0=iota --in arg1=1 --in d_output=iota
//$ flx compare FILE --devices ref,cpu --in arg0=iota --in arg1=1 | tail -n 1
// lax.cond and lax.switch. Written by JAX.
module @jit_branches attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<f32>) -> (tensor<3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.compare GT, %arg1, %cst, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %1 = stablehlo.convert %0 : (tensor<i1>) -> tensor<i32>
    %2 = "stablehlo.case"(%1) ({
      %6 = stablehlo.cosine %arg0 : tensor<3xf32>
      stablehlo.return %6 : tensor<3xf32>
    }, {
      %6 = stablehlo.sine %arg0 : tensor<3xf32>
      stablehlo.return %6 : tensor<3xf32>
    }) : (tensor<i32>) -> tensor<3xf32>
    %3 = stablehlo.convert %arg1 : (tensor<f32>) -> tensor<i32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<2> : tensor<i32>
    %4 = stablehlo.clamp %c, %3, %c_0 : tensor<i32>
    %5 = "stablehlo.case"(%4) ({
      %6 = stablehlo.exponential %2 : tensor<3xf32>
      stablehlo.return %6 : tensor<3xf32>
    }, {
      %6 = stablehlo.tanh %2 : tensor<3xf32>
      stablehlo.return %6 : tensor<3xf32>
    }, {
      %6 = chlo.square %2 : tensor<3xf32> -> tensor<3xf32>
      stablehlo.return %6 : tensor<3xf32>
    }) : (tensor<i32>) -> tensor<3xf32>
    return %5 : tensor<3xf32>
  }
}
//> out0: f32[3]
//>   min 0, max 0.720795, mean 0.469127
//>   0, 0.686587, 0.720795
//> d_arg0: f32[3]
//>   min -0.399879, max 0.285603, mean -0.0380923
//>   0, 0.285603, -0.399879
//> ref and cpu agree: 1 of 1 outputs within 1e-05
//! note: the gradient is that of the values of jax_branches.mlir: stop_gradient and rules of functions are in programs that JAX exports for the platform fluxion
