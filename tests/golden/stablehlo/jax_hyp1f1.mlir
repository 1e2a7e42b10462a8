//$ flx grad FILE --wrt arg0 | flx run - --device ref --in arg0=1.3
//$ flx gradcheck FILE --in arg0=1.3 | grep -o "derivatives agree"
// A confluent hypergeometric function: the series that is not selected does not converge. Written by JAX.
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf64>) -> (tensor<f64> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<1.500000e+00> : tensor<f64>
    %cst_0 = stablehlo.constant dense<2.500000e+00> : tensor<f64>
    %0 = call @hyp1f1(%cst, %cst_0, %arg0) : (tensor<f64>, tensor<f64>, tensor<2xf64>) -> tensor<2xf64>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %1 = stablehlo.reduce(%0 init: %cst_1) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
    return %1 : tensor<f64>
  }
  func.func private @hyp1f1(%arg0: tensor<f64>, %arg1: tensor<f64>, %arg2: tensor<2xf64>) -> tensor<2xf64> {
    %0 = stablehlo.convert %arg0 : tensor<f64>
    %1 = stablehlo.convert %arg1 : tensor<f64>
    %2 = stablehlo.abs %arg2 : tensor<2xf64>
    %cst = stablehlo.constant dense<1.000000e+02> : tensor<f64>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %4 = stablehlo.compare LT, %2, %3, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %5 = stablehlo.convert %4 : (tensor<2xi1>) -> tensor<2xi32>
    %6 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %7 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %8 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %9 = stablehlo.compare EQ, %5, %8, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %10 = stablehlo.select %9, %6, %6 : tensor<2xi1>, tensor<2xf64>
    %11 = stablehlo.select %9, %7, %7 : tensor<2xi1>, tensor<2xf64>
    %12 = stablehlo.select %9, %arg2, %arg2 : tensor<2xi1>, tensor<2xf64>
    %13 = stablehlo.subtract %11, %10 : tensor<2xf64>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %14 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %15 = stablehlo.subtract %14, %10 : tensor<2xf64>
    %16 = stablehlo.multiply %13, %15 : tensor<2xf64>
    %17 = stablehlo.divide %16, %12 : tensor<2xf64>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %18 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %c_2 = stablehlo.constant dense<1> : tensor<i64>
    %19 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %20:6 = stablehlo.while(%iterArg = %11, %iterArg_19 = %10, %iterArg_20 = %12, %iterArg_21 = %18, %iterArg_22 = %19, %iterArg_23 = %17) : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xi64>, tensor<2xf64>
    cond {
      %c_24 = stablehlo.constant dense<250> : tensor<i64>
      %76 = stablehlo.broadcast_in_dim %c_24, dims = [] : (tensor<i64>) -> tensor<2xi64>
      %77 = stablehlo.compare LT, %iterArg_22, %76, SIGNED : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
      %78 = stablehlo.abs %iterArg_23 : tensor<2xf64>
      %79 = stablehlo.abs %iterArg_21 : tensor<2xf64>
      %80 = stablehlo.divide %78, %79 : tensor<2xf64>
      %cst_25 = stablehlo.constant dense<2.2204460492503131E-16> : tensor<f64>
      %81 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %82 = stablehlo.compare GT, %80, %81, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %c_26 = stablehlo.constant dense<false> : tensor<i1>
      %83 = stablehlo.broadcast_in_dim %c_26, dims = [] : (tensor<i1>) -> tensor<2xi1>
      %84 = stablehlo.compare NE, %77, %83, UNSIGNED : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
      %85 = stablehlo.convert %84 : tensor<2xi1>
      %86 = stablehlo.and %85, %82 : tensor<2xi1>
      %c_27 = stablehlo.constant dense<false> : tensor<i1>
      %87 = stablehlo.reduce(%86 init: %c_27) applies stablehlo.or across dimensions = [0] : (tensor<2xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %87 : tensor<i1>
    } do {
      %76 = stablehlo.add %iterArg_21, %iterArg_23 : tensor<2xf64>
      %77 = stablehlo.subtract %iterArg, %iterArg_19 : tensor<2xf64>
      %78 = stablehlo.convert %iterArg_22 : (tensor<2xi64>) -> tensor<2xf64>
      %79 = stablehlo.add %77, %78 : tensor<2xf64>
      %cst_24 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
      %80 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %81 = stablehlo.subtract %80, %iterArg_19 : tensor<2xf64>
      %82 = stablehlo.convert %iterArg_22 : (tensor<2xi64>) -> tensor<2xf64>
      %83 = stablehlo.add %81, %82 : tensor<2xf64>
      %84 = stablehlo.multiply %79, %83 : tensor<2xf64>
      %c_25 = stablehlo.constant dense<1> : tensor<i64>
      %85 = stablehlo.broadcast_in_dim %c_25, dims = [] : (tensor<i64>) -> tensor<2xi64>
      %86 = stablehlo.add %iterArg_22, %85 : tensor<2xi64>
      %87 = stablehlo.convert %86 : (tensor<2xi64>) -> tensor<2xf64>
      %88 = stablehlo.divide %84, %87 : tensor<2xf64>
      %89 = stablehlo.divide %88, %iterArg_20 : tensor<2xf64>
      %90 = stablehlo.multiply %iterArg_23, %89 : tensor<2xf64>
      %c_26 = stablehlo.constant dense<1> : tensor<i64>
      %91 = stablehlo.broadcast_in_dim %c_26, dims = [] : (tensor<i64>) -> tensor<2xi64>
      %92 = stablehlo.add %iterArg_22, %91 : tensor<2xi64>
      %c_27 = stablehlo.constant dense<250> : tensor<i64>
      %93 = stablehlo.broadcast_in_dim %c_27, dims = [] : (tensor<i64>) -> tensor<2xi64>
      %94 = stablehlo.compare LT, %iterArg_22, %93, SIGNED : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
      %95 = stablehlo.abs %iterArg_23 : tensor<2xf64>
      %96 = stablehlo.abs %iterArg_21 : tensor<2xf64>
      %97 = stablehlo.divide %95, %96 : tensor<2xf64>
      %cst_28 = stablehlo.constant dense<2.2204460492503131E-16> : tensor<f64>
      %98 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %99 = stablehlo.compare GT, %97, %98, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %c_29 = stablehlo.constant dense<false> : tensor<i1>
      %100 = stablehlo.broadcast_in_dim %c_29, dims = [] : (tensor<i1>) -> tensor<2xi1>
      %101 = stablehlo.compare NE, %94, %100, UNSIGNED : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
      %102 = stablehlo.convert %101 : tensor<2xi1>
      %103 = stablehlo.and %102, %99 : tensor<2xi1>
      %104 = stablehlo.broadcast_in_dim %103, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %105 = stablehlo.select %104, %76, %iterArg_21 : tensor<2xi1>, tensor<2xf64>
      %106 = stablehlo.broadcast_in_dim %103, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %107 = stablehlo.select %106, %92, %iterArg_22 : tensor<2xi1>, tensor<2xi64>
      %108 = stablehlo.broadcast_in_dim %103, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %109 = stablehlo.select %108, %90, %iterArg_23 : tensor<2xi1>, tensor<2xf64>
      stablehlo.return %iterArg, %iterArg_19, %iterArg_20, %105, %107, %109 : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xi64>, tensor<2xf64>
    }
    %21 = call @gammasgn(%11) : (tensor<2xf64>) -> tensor<2xf64>
    %22 = chlo.lgamma %11 : tensor<2xf64> -> tensor<2xf64>
    %23 = stablehlo.exponential %22 : tensor<2xf64>
    %24 = stablehlo.multiply %21, %23 : tensor<2xf64>
    %25 = call @gammasgn(%10) : (tensor<2xf64>) -> tensor<2xf64>
    %26 = chlo.lgamma %10 : tensor<2xf64> -> tensor<2xf64>
    %27 = stablehlo.exponential %26 : tensor<2xf64>
    %28 = stablehlo.multiply %25, %27 : tensor<2xf64>
    %29 = stablehlo.divide %24, %28 : tensor<2xf64>
    %30 = stablehlo.exponential %12 : tensor<2xf64>
    %31 = stablehlo.multiply %29, %30 : tensor<2xf64>
    %32 = stablehlo.subtract %10, %11 : tensor<2xf64>
    %33 = stablehlo.power %12, %32 : tensor<2xf64>
    %34 = stablehlo.multiply %31, %33 : tensor<2xf64>
    %35 = stablehlo.multiply %34, %20#3 : tensor<2xf64>
    %c_3 = stablehlo.constant dense<1> : tensor<i32>
    %36 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %37 = stablehlo.compare EQ, %5, %36, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %38 = stablehlo.select %37, %6, %6 : tensor<2xi1>, tensor<2xf64>
    %39 = stablehlo.select %37, %7, %7 : tensor<2xi1>, tensor<2xf64>
    %40 = stablehlo.select %37, %arg2, %arg2 : tensor<2xi1>, tensor<2xf64>
    %41 = stablehlo.divide %38, %39 : tensor<2xf64>
    %42 = stablehlo.multiply %41, %40 : tensor<2xf64>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %43 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %c_5 = stablehlo.constant dense<1> : tensor<i64>
    %44 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %45:6 = stablehlo.while(%iterArg = %38, %iterArg_19 = %39, %iterArg_20 = %40, %iterArg_21 = %43, %iterArg_22 = %44, %iterArg_23 = %42) : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xi64>, tensor<2xf64>
    cond {
      %c_24 = stablehlo.constant dense<250> : tensor<i64>
      %76 = stablehlo.broadcast_in_dim %c_24, dims = [] : (tensor<i64>) -> tensor<2xi64>
      %77 = stablehlo.compare LT, %iterArg_22, %76, SIGNED : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
      %78 = stablehlo.abs %iterArg_23 : tensor<2xf64>
      %79 = stablehlo.abs %iterArg_21 : tensor<2xf64>
      %80 = stablehlo.divide %78, %79 : tensor<2xf64>
      %cst_25 = stablehlo.constant dense<2.2204460492503131E-16> : tensor<f64>
      %81 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %82 = stablehlo.compare GT, %80, %81, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %c_26 = stablehlo.constant dense<false> : tensor<i1>
      %83 = stablehlo.broadcast_in_dim %c_26, dims = [] : (tensor<i1>) -> tensor<2xi1>
      %84 = stablehlo.compare NE, %77, %83, UNSIGNED : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
      %85 = stablehlo.convert %84 : tensor<2xi1>
      %86 = stablehlo.and %85, %82 : tensor<2xi1>
      %c_27 = stablehlo.constant dense<false> : tensor<i1>
      %87 = stablehlo.reduce(%86 init: %c_27) applies stablehlo.or across dimensions = [0] : (tensor<2xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %87 : tensor<i1>
    } do {
      %76 = stablehlo.add %iterArg_21, %iterArg_23 : tensor<2xf64>
      %77 = stablehlo.convert %iterArg_22 : (tensor<2xi64>) -> tensor<2xf64>
      %78 = stablehlo.add %iterArg, %77 : tensor<2xf64>
      %79 = stablehlo.convert %iterArg_22 : (tensor<2xi64>) -> tensor<2xf64>
      %80 = stablehlo.add %iterArg_19, %79 : tensor<2xf64>
      %81 = stablehlo.divide %78, %80 : tensor<2xf64>
      %82 = stablehlo.multiply %81, %iterArg_20 : tensor<2xf64>
      %c_24 = stablehlo.constant dense<1> : tensor<i64>
      %83 = stablehlo.broadcast_in_dim %c_24, dims = [] : (tensor<i64>) -> tensor<2xi64>
      %84 = stablehlo.add %iterArg_22, %83 : tensor<2xi64>
      %85 = stablehlo.convert %84 : (tensor<2xi64>) -> tensor<2xf64>
      %86 = stablehlo.divide %82, %85 : tensor<2xf64>
      %87 = stablehlo.multiply %iterArg_23, %86 : tensor<2xf64>
      %c_25 = stablehlo.constant dense<1> : tensor<i64>
      %88 = stablehlo.broadcast_in_dim %c_25, dims = [] : (tensor<i64>) -> tensor<2xi64>
      %89 = stablehlo.add %iterArg_22, %88 : tensor<2xi64>
      %c_26 = stablehlo.constant dense<250> : tensor<i64>
      %90 = stablehlo.broadcast_in_dim %c_26, dims = [] : (tensor<i64>) -> tensor<2xi64>
      %91 = stablehlo.compare LT, %iterArg_22, %90, SIGNED : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
      %92 = stablehlo.abs %iterArg_23 : tensor<2xf64>
      %93 = stablehlo.abs %iterArg_21 : tensor<2xf64>
      %94 = stablehlo.divide %92, %93 : tensor<2xf64>
      %cst_27 = stablehlo.constant dense<2.2204460492503131E-16> : tensor<f64>
      %95 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f64>) -> tensor<2xf64>
      %96 = stablehlo.compare GT, %94, %95, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
      %c_28 = stablehlo.constant dense<false> : tensor<i1>
      %97 = stablehlo.broadcast_in_dim %c_28, dims = [] : (tensor<i1>) -> tensor<2xi1>
      %98 = stablehlo.compare NE, %91, %97, UNSIGNED : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
      %99 = stablehlo.convert %98 : tensor<2xi1>
      %100 = stablehlo.and %99, %96 : tensor<2xi1>
      %101 = stablehlo.broadcast_in_dim %100, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %102 = stablehlo.select %101, %76, %iterArg_21 : tensor<2xi1>, tensor<2xf64>
      %103 = stablehlo.broadcast_in_dim %100, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %104 = stablehlo.select %103, %89, %iterArg_22 : tensor<2xi1>, tensor<2xi64>
      %105 = stablehlo.broadcast_in_dim %100, dims = [0] : (tensor<2xi1>) -> tensor<2xi1>
      %106 = stablehlo.select %105, %87, %iterArg_23 : tensor<2xi1>, tensor<2xf64>
      stablehlo.return %iterArg, %iterArg_19, %iterArg_20, %102, %104, %106 : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xi64>, tensor<2xf64>
    }
    %c_6 = stablehlo.constant dense<1> : tensor<i32>
    %46 = stablehlo.broadcast_in_dim %c_6, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %47 = stablehlo.compare LT, %5, %46, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %48 = stablehlo.select %47, %35, %45#3 : tensor<2xi1>, tensor<2xf64>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %49 = stablehlo.compare EQ, %0, %cst_7, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %50 = stablehlo.convert %49 : (tensor<i1>) -> tensor<i64>
    %c_8 = stablehlo.constant dense<1> : tensor<i64>
    %51 = stablehlo.multiply %50, %c_8 : tensor<i64>
    %52 = stablehlo.compare EQ, %0, %1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %53 = stablehlo.compare NE, %0, %cst_9, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %54 = stablehlo.and %52, %53 : tensor<i1>
    %55 = stablehlo.convert %54 : (tensor<i1>) -> tensor<i64>
    %c_10 = stablehlo.constant dense<2> : tensor<i64>
    %56 = stablehlo.multiply %55, %c_10 : tensor<i64>
    %57 = stablehlo.add %51, %56 : tensor<i64>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %58 = stablehlo.compare EQ, %1, %cst_11, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %59 = stablehlo.compare NE, %0, %cst_12, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %60 = stablehlo.and %58, %59 : tensor<i1>
    %61 = stablehlo.convert %60 : (tensor<i1>) -> tensor<i64>
    %c_13 = stablehlo.constant dense<3> : tensor<i64>
    %62 = stablehlo.multiply %61, %c_13 : tensor<i64>
    %63 = stablehlo.add %57, %62 : tensor<i64>
    %64 = stablehlo.exponential %arg2 : tensor<2xf64>
    %cst_14 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %65 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %cst_15 = stablehlo.constant dense<0x7FF0000000000000> : tensor<f64>
    %66 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %c_16 = stablehlo.constant dense<2> : tensor<i64>
    %67 = stablehlo.broadcast_in_dim %c_16, dims = [] : (tensor<i64>) -> tensor<i64>
    %68 = stablehlo.compare LT, %63, %67, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %c_17 = stablehlo.constant dense<1> : tensor<i64>
    %69 = stablehlo.broadcast_in_dim %c_17, dims = [] : (tensor<i64>) -> tensor<i64>
    %70 = stablehlo.compare LT, %63, %69, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %71 = stablehlo.select %70, %48, %65 : tensor<i1>, tensor<2xf64>
    %c_18 = stablehlo.constant dense<3> : tensor<i64>
    %72 = stablehlo.broadcast_in_dim %c_18, dims = [] : (tensor<i64>) -> tensor<i64>
    %73 = stablehlo.compare LT, %63, %72, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %74 = stablehlo.select %73, %64, %66 : tensor<i1>, tensor<2xf64>
    %75 = stablehlo.select %68, %71, %74 : tensor<i1>, tensor<2xf64>
    return %75 : tensor<2xf64>
  }
  func.func private @gammasgn(%arg0: tensor<2xf64>) -> tensor<2xf64> {
    %0 = stablehlo.floor %arg0 : tensor<2xf64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %2 = stablehlo.compare LT, %arg0, %1, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %3 = stablehlo.compare EQ, %arg0, %0, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %4 = stablehlo.and %2, %3 : tensor<2xi1>
    %5 = stablehlo.compare NE, %arg0, %arg0, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %6 = stablehlo.or %4, %5 : tensor<2xi1>
    %c = stablehlo.constant dense<2> : tensor<i64>
    %7 = call @remainder(%0, %c) : (tensor<2xf64>, tensor<i64>) -> tensor<2xf64>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %8 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %9 = stablehlo.compare NE, %7, %8, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %10 = stablehlo.and %2, %9 : tensor<2xi1>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %11 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %12 = stablehlo.compare EQ, %arg0, %11, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %13 = call @signbit(%arg0) : (tensor<2xf64>) -> tensor<2xi1>
    %14 = stablehlo.and %12, %13 : tensor<2xi1>
    %15 = stablehlo.or %10, %14 : tensor<2xi1>
    %c_2 = stablehlo.constant dense<false> : tensor<i1>
    %16 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i1>) -> tensor<2xi1>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0] : (tensor<2xi1>) -> tensor<2x1xi1>
    %18 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<2xi1>) -> tensor<2x1xi1>
    %19 = stablehlo.broadcast_in_dim %15, dims = [0] : (tensor<2xi1>) -> tensor<2x1xi1>
    %20 = stablehlo.concatenate %17, %18, %19, dim = 1 : (tensor<2x1xi1>, tensor<2x1xi1>, tensor<2x1xi1>) -> tensor<2x3xi1>
    %21 = call @argmax(%20) : (tensor<2x3xi1>) -> tensor<2xi64>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %22 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %cst_4 = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %23 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %cst_5 = stablehlo.constant dense<-1.000000e+00> : tensor<f64>
    %24 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %c_6 = stablehlo.constant dense<1> : tensor<i64>
    %25 = stablehlo.broadcast_in_dim %c_6, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %26 = stablehlo.compare LT, %21, %25, SIGNED : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
    %c_7 = stablehlo.constant dense<2> : tensor<i64>
    %27 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %28 = stablehlo.compare LT, %21, %27, SIGNED : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
    %29 = stablehlo.select %28, %23, %24 : tensor<2xi1>, tensor<2xf64>
    %30 = stablehlo.select %26, %22, %29 : tensor<2xi1>, tensor<2xf64>
    return %30 : tensor<2xf64>
  }
  func.func private @remainder(%arg0: tensor<2xf64>, %arg1: tensor<i64>) -> tensor<2xf64> {
    %0 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<f64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %2 = stablehlo.remainder %arg0, %1 : tensor<2xf64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %4 = stablehlo.compare NE, %2, %3, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %6 = stablehlo.compare LT, %2, %5, FLOAT : (tensor<2xf64>, tensor<2xf64>) -> tensor<2xi1>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %7 = stablehlo.compare LT, %0, %cst_1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<i1>) -> tensor<2xi1>
    %9 = stablehlo.compare NE, %6, %8, UNSIGNED : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
    %10 = stablehlo.and %9, %4 : tensor<2xi1>
    %11 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<2xf64>
    %12 = stablehlo.add %2, %11 : tensor<2xf64>
    %13 = stablehlo.select %10, %12, %2 : tensor<2xi1>, tensor<2xf64>
    return %13 : tensor<2xf64>
  }
  func.func private @signbit(%arg0: tensor<2xf64>) -> tensor<2xi1> {
    %0 = stablehlo.bitcast_convert %arg0 : (tensor<2xf64>) -> tensor<2xi64>
    %c = stablehlo.constant dense<63> : tensor<i64>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %2 = stablehlo.shift_right_arithmetic %0, %1 : tensor<2xi64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i64>) -> tensor<2xi64>
    %4 = stablehlo.compare NE, %2, %3, SIGNED : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi1>
    %5 = stablehlo.convert %4 : tensor<2xi1>
    return %5 : tensor<2xi1>
  }
  func.func private @argmax(%arg0: tensor<2x3xi1>) -> tensor<2xi64> {
    %0 = stablehlo.iota dim = 1 : tensor<2x3xi64>
    %c = stablehlo.constant dense<false> : tensor<i1>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %1:2 = stablehlo.reduce(%arg0 init: %c), (%0 init: %c_0) across dimensions = [1] : (tensor<2x3xi1>, tensor<2x3xi64>, tensor<i1>, tensor<i64>) -> (tensor<2xi1>, tensor<2xi64>)
     reducer(%arg1: tensor<i1>, %arg3: tensor<i1>) (%arg2: tensor<i64>, %arg4: tensor<i64>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, UNSIGNED : (tensor<i1>, tensor<i1>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<i1>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i64>
      stablehlo.return %9, %10 : tensor<i1>, tensor<i64>
    }
    return %1#1 : tensor<2xi64>
  }
}
//> d_arg0: f64[2]
//>   min 1.57374, max 1.57374, mean 1.57374
//>   1.57374, 1.57374
//> derivatives agree
//! note: the gradient is that of the values of jax_hyp1f1.mlir: stop_gradient and rules of functions are in programs that JAX exports for the platform fluxion
