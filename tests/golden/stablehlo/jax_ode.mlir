//$ flx run FILE --device ref --in arg0=iota --in arg1=1
//$ flx grad FILE --wrt arg0,arg1 --seed input | flx run - --device ref --in arg0=iota --in arg1=1 --in d_output=iota
//$ flx compare FILE --devices ref,cpu --in arg0=iota --in arg1=1 | tail -n 1
// Ten Runge-Kutta steps of y' = -k y^2. Written by JAX.
module @jit_loop attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<f32>) -> (tensor<3xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0:4 = stablehlo.while(%iterArg = %arg1, %iterArg_1 = %c_0, %iterArg_2 = %c, %iterArg_3 = %arg0) : tensor<f32>, tensor<i32>, tensor<i32>, tensor<3xf32>
    cond {
      %c_4 = stablehlo.constant dense<10> : tensor<i32>
      %1 = stablehlo.compare LT, %iterArg_1, %c_4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1:2 = func.call @closed_call(%iterArg, %iterArg_2, %iterArg_3) : (tensor<f32>, tensor<i32>, tensor<3xf32>) -> (tensor<i32>, tensor<3xf32>)
      %c_4 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg_1, %c_4 : tensor<i32>
      stablehlo.return %iterArg, %2, %1#0, %1#1 : tensor<f32>, tensor<i32>, tensor<i32>, tensor<3xf32>
    }
    return %0#3 : tensor<3xf32>
  }
  func.func private @closed_call(%arg0: tensor<f32>, %arg1: tensor<i32>, %arg2: tensor<3xf32>) -> (tensor<i32>, tensor<3xf32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg1, %c : tensor<i32>
    %1 = stablehlo.negate %arg0 : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %3 = stablehlo.multiply %2, %arg2 : tensor<3xf32>
    %4 = stablehlo.multiply %3, %arg2 : tensor<3xf32>
    %cst = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %6 = stablehlo.multiply %5, %4 : tensor<3xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<3xf32>
    %8 = stablehlo.negate %arg0 : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %10 = stablehlo.multiply %9, %7 : tensor<3xf32>
    %11 = stablehlo.multiply %10, %7 : tensor<3xf32>
    %cst_0 = stablehlo.constant dense<5.000000e-02> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %13 = stablehlo.multiply %12, %11 : tensor<3xf32>
    %14 = stablehlo.add %arg2, %13 : tensor<3xf32>
    %15 = stablehlo.negate %arg0 : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %17 = stablehlo.multiply %16, %14 : tensor<3xf32>
    %18 = stablehlo.multiply %17, %14 : tensor<3xf32>
    %cst_1 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %20 = stablehlo.multiply %19, %18 : tensor<3xf32>
    %21 = stablehlo.add %arg2, %20 : tensor<3xf32>
    %22 = stablehlo.negate %arg0 : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %24 = stablehlo.multiply %23, %21 : tensor<3xf32>
    %25 = stablehlo.multiply %24, %21 : tensor<3xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %27 = stablehlo.multiply %26, %11 : tensor<3xf32>
    %28 = stablehlo.add %4, %27 : tensor<3xf32>
    %cst_3 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %30 = stablehlo.multiply %29, %18 : tensor<3xf32>
    %31 = stablehlo.add %28, %30 : tensor<3xf32>
    %32 = stablehlo.add %31, %25 : tensor<3xf32>
    %cst_4 = stablehlo.constant dense<0.0166666675> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %34 = stablehlo.multiply %33, %32 : tensor<3xf32>
    %35 = stablehlo.add %arg2, %34 : tensor<3xf32>
    return %0, %35 : tensor<i32>, tensor<3xf32>
  }
}
//> out0: f32[3]
//>   min 0, max 0.666671, mean 0.38889
//>   0, 0.5, 0.666671
//> d_arg0: f32[3]
//>   min 0, max 0.250001, mean 0.157413
//>   0, 0.250001, 0.222238
//> d_arg1: f32[] = -1.13887
//> ref and cpu agree: 1 of 1 outputs within 1e-05
//! note: the gradient is that of the values of jax_ode.mlir: stop_gradient and rules of functions are in programs that JAX exports for the platform fluxion
