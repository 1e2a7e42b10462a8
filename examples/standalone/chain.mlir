module @jit_chain attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x2xf32>, %arg1: tensor<8x2xf32>) -> (tensor<8x2xf32> {jax.result_info = "result[0]"}, tensor<8x2xf32> {jax.result_info = "result[1]"}, tensor<f32> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.slice %arg0 [1:8, 0:2] : (tensor<8x2xf32>) -> tensor<7x2xf32>
    %1 = stablehlo.slice %arg0 [0:7, 0:2] : (tensor<8x2xf32>) -> tensor<7x2xf32>
    %2 = stablehlo.subtract %0, %1 : tensor<7x2xf32>
    %3 = stablehlo.multiply %2, %2 : tensor<7x2xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<7x2xf32>, tensor<f32>) -> tensor<7xf32>
    %5 = stablehlo.sqrt %4 : tensor<7xf32>
    %cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<7xf32>
    %7 = stablehlo.divide %6, %5 : tensor<7xf32>
    %8 = stablehlo.slice %arg0 [2:8, 0:2] : (tensor<8x2xf32>) -> tensor<6x2xf32>
    %9 = stablehlo.slice %arg0 [1:7, 0:2] : (tensor<8x2xf32>) -> tensor<6x2xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<6x2xf32>
    %11 = stablehlo.multiply %10, %9 : tensor<6x2xf32>
    %12 = stablehlo.subtract %8, %11 : tensor<6x2xf32>
    %13 = stablehlo.slice %arg0 [0:6, 0:2] : (tensor<8x2xf32>) -> tensor<6x2xf32>
    %14 = stablehlo.add %12, %13 : tensor<6x2xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<7xf32>
    %16 = stablehlo.subtract %5, %15 : tensor<7xf32>
    %cst_3 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<7xf32>
    %18 = stablehlo.multiply %17, %16 : tensor<7xf32>
    %cst_4 = stablehlo.constant dense<5.000000e+00> : tensor<f32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %19 = stablehlo.multiply %cst_4, %cst_5 : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [] : (tensor<f32>) -> tensor<6x2xf32>
    %21 = stablehlo.multiply %14, %20 : tensor<6x2xf32>
    %22 = stablehlo.multiply %20, %14 : tensor<6x2xf32>
    %23 = stablehlo.add %21, %22 : tensor<6x2xf32>
    %cst_6 = stablehlo.constant dense<5.000000e+01> : tensor<f32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %24 = stablehlo.multiply %cst_6, %cst_7 : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [] : (tensor<f32>) -> tensor<7xf32>
    %26 = stablehlo.multiply %25, %18 : tensor<7xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %27 = stablehlo.pad %23, %cst_8, low = [0, 0], high = [2, 0], interior = [0, 0] : (tensor<6x2xf32>, tensor<f32>) -> tensor<8x2xf32>
    %28 = stablehlo.negate %23 : tensor<6x2xf32>
    %cst_9 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<6x2xf32>
    %30 = stablehlo.multiply %29, %28 : tensor<6x2xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %31 = stablehlo.pad %30, %cst_10, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<6x2xf32>, tensor<f32>) -> tensor<8x2xf32>
    %32 = stablehlo.add %27, %31 : tensor<8x2xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %33 = stablehlo.pad %23, %cst_11, low = [2, 0], high = [0, 0], interior = [0, 0] : (tensor<6x2xf32>, tensor<f32>) -> tensor<8x2xf32>
    %34 = stablehlo.add %32, %33 : tensor<8x2xf32>
    %35 = stablehlo.multiply %26, %7 : tensor<7xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0] : (tensor<7xf32>) -> tensor<7x2xf32>
    %37 = stablehlo.multiply %2, %36 : tensor<7x2xf32>
    %38 = stablehlo.multiply %36, %2 : tensor<7x2xf32>
    %39 = stablehlo.add %37, %38 : tensor<7x2xf32>
    %40 = stablehlo.negate %39 : tensor<7x2xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %41 = stablehlo.pad %40, %cst_12, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<7x2xf32>, tensor<f32>) -> tensor<8x2xf32>
    %42 = stablehlo.add %34, %41 : tensor<8x2xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %43 = stablehlo.pad %39, %cst_13, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<7x2xf32>, tensor<f32>) -> tensor<8x2xf32>
    %44 = stablehlo.add %42, %43 : tensor<8x2xf32>
    %cst_14 = stablehlo.constant dense<5.000000e-03> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<8x2xf32>
    %46 = stablehlo.multiply %45, %44 : tensor<8x2xf32>
    %47 = stablehlo.subtract %arg1, %46 : tensor<8x2xf32>
    %cst_15 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<8x2xf32>
    %49 = stablehlo.multiply %48, %47 : tensor<8x2xf32>
    %50 = stablehlo.add %arg0, %49 : tensor<8x2xf32>
    %51 = stablehlo.slice %50 [1:8, 0:2] : (tensor<8x2xf32>) -> tensor<7x2xf32>
    %52 = stablehlo.slice %50 [0:7, 0:2] : (tensor<8x2xf32>) -> tensor<7x2xf32>
    %53 = stablehlo.subtract %51, %52 : tensor<7x2xf32>
    %54 = stablehlo.multiply %53, %53 : tensor<7x2xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %55 = stablehlo.reduce(%54 init: %cst_16) applies stablehlo.add across dimensions = [1] : (tensor<7x2xf32>, tensor<f32>) -> tensor<7xf32>
    %56 = stablehlo.sqrt %55 : tensor<7xf32>
    %cst_17 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<7xf32>
    %58 = stablehlo.divide %57, %56 : tensor<7xf32>
    %59 = stablehlo.slice %50 [2:8, 0:2] : (tensor<8x2xf32>) -> tensor<6x2xf32>
    %60 = stablehlo.slice %50 [1:7, 0:2] : (tensor<8x2xf32>) -> tensor<6x2xf32>
    %cst_18 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<6x2xf32>
    %62 = stablehlo.multiply %61, %60 : tensor<6x2xf32>
    %63 = stablehlo.subtract %59, %62 : tensor<6x2xf32>
    %64 = stablehlo.slice %50 [0:6, 0:2] : (tensor<8x2xf32>) -> tensor<6x2xf32>
    %65 = stablehlo.add %63, %64 : tensor<6x2xf32>
    %cst_19 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<7xf32>
    %67 = stablehlo.subtract %56, %66 : tensor<7xf32>
    %cst_20 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %68 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<7xf32>
    %69 = stablehlo.multiply %68, %67 : tensor<7xf32>
    %cst_21 = stablehlo.constant dense<5.000000e+00> : tensor<f32>
    %cst_22 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %70 = stablehlo.multiply %cst_21, %cst_22 : tensor<f32>
    %71 = stablehlo.broadcast_in_dim %70, dims = [] : (tensor<f32>) -> tensor<6x2xf32>
    %72 = stablehlo.multiply %65, %71 : tensor<6x2xf32>
    %73 = stablehlo.multiply %71, %65 : tensor<6x2xf32>
    %74 = stablehlo.add %72, %73 : tensor<6x2xf32>
    %cst_23 = stablehlo.constant dense<5.000000e+01> : tensor<f32>
    %cst_24 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %75 = stablehlo.multiply %cst_23, %cst_24 : tensor<f32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [] : (tensor<f32>) -> tensor<7xf32>
    %77 = stablehlo.multiply %76, %69 : tensor<7xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %78 = stablehlo.pad %74, %cst_25, low = [0, 0], high = [2, 0], interior = [0, 0] : (tensor<6x2xf32>, tensor<f32>) -> tensor<8x2xf32>
    %79 = stablehlo.negate %74 : tensor<6x2xf32>
    %cst_26 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %80 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<6x2xf32>
    %81 = stablehlo.multiply %80, %79 : tensor<6x2xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %82 = stablehlo.pad %81, %cst_27, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<6x2xf32>, tensor<f32>) -> tensor<8x2xf32>
    %83 = stablehlo.add %78, %82 : tensor<8x2xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %84 = stablehlo.pad %74, %cst_28, low = [2, 0], high = [0, 0], interior = [0, 0] : (tensor<6x2xf32>, tensor<f32>) -> tensor<8x2xf32>
    %85 = stablehlo.add %83, %84 : tensor<8x2xf32>
    %86 = stablehlo.multiply %77, %58 : tensor<7xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0] : (tensor<7xf32>) -> tensor<7x2xf32>
    %88 = stablehlo.multiply %53, %87 : tensor<7x2xf32>
    %89 = stablehlo.multiply %87, %53 : tensor<7x2xf32>
    %90 = stablehlo.add %88, %89 : tensor<7x2xf32>
    %91 = stablehlo.negate %90 : tensor<7x2xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %92 = stablehlo.pad %91, %cst_29, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<7x2xf32>, tensor<f32>) -> tensor<8x2xf32>
    %93 = stablehlo.add %85, %92 : tensor<8x2xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %94 = stablehlo.pad %90, %cst_30, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<7x2xf32>, tensor<f32>) -> tensor<8x2xf32>
    %95 = stablehlo.add %93, %94 : tensor<8x2xf32>
    %cst_31 = stablehlo.constant dense<5.000000e-03> : tensor<f32>
    %96 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<8x2xf32>
    %97 = stablehlo.multiply %96, %95 : tensor<8x2xf32>
    %98 = stablehlo.subtract %47, %97 : tensor<8x2xf32>
    %99 = stablehlo.slice %50 [1:8, 0:2] : (tensor<8x2xf32>) -> tensor<7x2xf32>
    %100 = stablehlo.slice %50 [0:7, 0:2] : (tensor<8x2xf32>) -> tensor<7x2xf32>
    %101 = stablehlo.subtract %99, %100 : tensor<7x2xf32>
    %102 = stablehlo.multiply %101, %101 : tensor<7x2xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %103 = stablehlo.reduce(%102 init: %cst_32) applies stablehlo.add across dimensions = [1] : (tensor<7x2xf32>, tensor<f32>) -> tensor<7xf32>
    %104 = stablehlo.sqrt %103 : tensor<7xf32>
    %105 = stablehlo.slice %50 [2:8, 0:2] : (tensor<8x2xf32>) -> tensor<6x2xf32>
    %106 = stablehlo.slice %50 [1:7, 0:2] : (tensor<8x2xf32>) -> tensor<6x2xf32>
    %cst_33 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<6x2xf32>
    %108 = stablehlo.multiply %107, %106 : tensor<6x2xf32>
    %109 = stablehlo.subtract %105, %108 : tensor<6x2xf32>
    %110 = stablehlo.slice %50 [0:6, 0:2] : (tensor<8x2xf32>) -> tensor<6x2xf32>
    %111 = stablehlo.add %109, %110 : tensor<6x2xf32>
    %cst_34 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<7xf32>
    %113 = stablehlo.subtract %104, %112 : tensor<7xf32>
    %114 = stablehlo.multiply %113, %113 : tensor<7xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %115 = stablehlo.reduce(%114 init: %cst_35) applies stablehlo.add across dimensions = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<f32>
    %cst_36 = stablehlo.constant dense<5.000000e+01> : tensor<f32>
    %116 = stablehlo.multiply %cst_36, %115 : tensor<f32>
    %117 = stablehlo.multiply %111, %111 : tensor<6x2xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %118 = stablehlo.reduce(%117 init: %cst_37) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x2xf32>, tensor<f32>) -> tensor<f32>
    %cst_38 = stablehlo.constant dense<5.000000e+00> : tensor<f32>
    %119 = stablehlo.multiply %cst_38, %118 : tensor<f32>
    %120 = stablehlo.add %116, %119 : tensor<f32>
    %121 = stablehlo.multiply %98, %98 : tensor<8x2xf32>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %122 = stablehlo.reduce(%121 init: %cst_39) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x2xf32>, tensor<f32>) -> tensor<f32>
    %cst_40 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %123 = stablehlo.multiply %cst_40, %122 : tensor<f32>
    %124 = stablehlo.add %120, %123 : tensor<f32>
    return %50, %98, %124 : tensor<8x2xf32>, tensor<8x2xf32>, tensor<f32>
  }
}
