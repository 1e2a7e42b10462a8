//$ flx run FILE --device ref --in arg0=iota --in arg1=iota --in arg2=iota
//$ flx grad FILE --wrt arg0,arg1 --seed input | flx run - --device ref --in arg0=iota --in arg1=iota --in arg2=iota --in d_output=iota
//$ flx compare FILE --devices ref,cpu --in arg0=iota --in arg1=iota --in arg2=iota | tail -n 1
// The norm of the last axis. Written by JAX.
module @jit_layer_norm attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>, %arg2: tensor<3xf32>) -> (tensor<2x3xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<2x3xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<2xf32>) -> tensor<2x1xf32>
    %cst_0 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<2x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<2x3xf32>
    %7 = chlo.square %6 : tensor<2x3xf32> -> tensor<2x3xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<2xf32>) -> tensor<2x1xf32>
    %cst_2 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x1xf32>
    %11 = stablehlo.divide %9, %10 : tensor<2x1xf32>
    %12 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
    %13 = stablehlo.subtract %0, %12 : tensor<2x3xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x1xf32>
    %15 = stablehlo.add %11, %14 : tensor<2x1xf32>
    %16 = stablehlo.rsqrt %15 : tensor<2x1xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
    %18 = stablehlo.multiply %13, %17 : tensor<2x3xf32>
    %19 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32>
    %21 = stablehlo.multiply %18, %20 : tensor<2x3xf32>
    %22 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32>
    %24 = stablehlo.add %21, %23 : tensor<2x3xf32>
    return %24 : tensor<2x3xf32>
  }
}
//> out0: f32[2, 3]
//>   min 0, max 4.74562, mean 1.79942
//>   0, 0.607768, 4.74562, 0, 0.898203, 4.54493
//> d_arg0: f32[2, 3]
//>   min -0.30381, max 0.166147, mean -0.00157974
//>   -0, -2.6226e-06, 1.85966e-05, 0.128169, -0.30381, 0.166147
//> d_arg1: f32[3]
//>   min -3.51201, max 9.10795, mean 1.59884
//>   -3.51201, -0.79942, 9.10795
//> ref and cpu agree: 1 of 1 outputs within 1e-05
//! note: the gradient is that of the values of jax_layer_norm.mlir: stop_gradient and rules of functions are in programs that JAX exports for the platform fluxion
