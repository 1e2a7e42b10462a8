/* SPDX-License-Identifier: Apache-2.0 */
/* splat.h: Gaussian splats: the scene, the camera, and the renderer that evaluators and routes share.

   A scene is flat: positions and logarithms of scales (three numbers for each splat), rotations (x, y, z, w), logits of
   opacity, colours (three), coefficients of spherical harmonics (`bands` for each splat, three channels each), and 23
   numbers of the camera: eye, target, up (three each), vertical field of view in degrees, near, far, background
   (three), and eight that repeat the attributes, which take precedence. An image is [height * width * 4], red, green,
   blue and coverage of each pixel.

   Everything is computed in double. Decisions by comparison (order, culling, the cutoff, where a ray ends) are locally
   constant, so derivatives treat them as fixed. */
#ifndef FLXI_SPLAT_H
#define FLXI_SPLAT_H

#include "graph/op/attr_access.h"

#include <math.h>

enum { /* operands of the ops that take a scene */
       SPLAT_POSITIONS,
       SPLAT_LOG_SCALES,
       SPLAT_ROTATIONS,
       SPLAT_OPACITY,
       SPLAT_COLOURS,
       SPLAT_HARMONICS,
       SPLAT_META,
       SPLAT_PARTS
};

enum {
    SPLAT_META_COUNT = 23,
    SPLAT_MAX_BANDS = 16,
    SPLAT_EYE = 0, /* offsets in meta */
    SPLAT_TARGET = 3,
    SPLAT_UP = 6,
    SPLAT_FOV = 9,
    SPLAT_NEAR = 10,
    SPLAT_FAR = 11,
    SPLAT_BACKGROUND = 12
};

typedef struct {
    int64_t width, height, tile_size;
    double radius_scale, alpha_cutoff;
    int64_t max_splat_steps;
    double transmittance_threshold;
    int64_t max_list_entries;
    /* Of the backward op only: */
    double clip;           /* NaN: none */
    int64_t sh_bands;      /* FLXI_ABSENT: all */
    double max_anisotropy; /* NaN: none */
} flxi_splat_attrs;

/* For code outside the family: NULL where the op is another one. */
FLXI_ATTRS_VIEW_OF(flxi_splat_attrs_of, flxi_splat_attrs, gaussian_splat_render)
FLXI_ATTRS_VIEW_OF(flxi_splat_backward_attrs_of, flxi_splat_attrs, gaussian_splat_render_backward)

typedef struct {
    int64_t count;
    int64_t bands; /* coefficients of each splat and channel; 0: colours are unchanged */
    int32_t dtype;
    const void *part[SPLAT_PARTS];
} flxi_scene;

typedef struct {
    double eye[3], forward[3], right[3], up[3];
    double focal, centre[2];
    double near, far, background[3];
} flxi_camera;

/* A splat as rays see it. */
typedef struct {
    double depth;         /* along the camera's forward axis */
    bool is_valid;        /* between near and far */
    double origin[3];     /* the eye, in the splat's own axes and units */
    double inverse[3];    /* 1/σ */
    double quaternion[4]; /* normalised; zeros stay zeros and do not rotate */
    double rotation[9];   /* row-major */
    double colour[3], opacity;
    int64_t box[4]; /* pixels that it may affect: columns [0], [1]; rows [2], [3], inclusive */
} flxi_splat;

typedef struct {
    const flxi_splat_attrs *attrs;
    flxi_scene scene;
    flxi_camera camera;
    flxi_splat *splats;
    const int64_t *order; /* of the valid ones, front to back */
    int64_t valid;
} flxi_view;

/* Bytes of scratch for a scene of that many splats. */
size_t flxi_view_bytes(int64_t count);
/* Steps 1 to 3: camera, splats, colours, and their order. */
void flxi_view_open(flxi_view *v, const flxi_splat_attrs *a, const flxi_scene *scene, void *scratch);
flxi_camera flxi_camera_of(const flxi_splat_attrs *a, int32_t dtype, const void *meta);
/* The rotation of a normalised quaternion. */
void flxi_splat_rotate(flxi_splat *p);
/* A unit ray through the centre of pixel (column, row). */
void flxi_camera_ray(const flxi_camera *c, int64_t column, int64_t row, double ray[3]);

/* Steps 4 to 6 for one ray: `order` lists `count` splats front to back. */
void flxi_splat_shade(const flxi_splat_attrs *a, const flxi_splat *splats, const int64_t *order, int64_t count,
                      const double ray[3], const double background[3], double rgba[4]);
/* Rows [from, to) of the image; `boxed` skips splats that cannot affect a pixel. */
void flxi_splat_draw(const flxi_view *v, bool boxed, int64_t from, int64_t to, void *image);

/* Cotangents of the scene, packed: positions, log-scales, rotations, opacity, colours, harmonics. */
size_t flxi_splat_backward_bytes(const flxi_view *v);
void flxi_splat_backward(const flxi_view *v, const void *d_image, void *packed, void *scratch);

/* The real basis of spherical harmonics up to degree 3 at a unit vector, and its gradient. */
void flxi_harmonics(const double v[3], double y[SPLAT_MAX_BANDS], double dy[SPLAT_MAX_BANDS][3]);
/* Coefficients of its polynomials, for the version in tensor ops: see splat_graph.c. */
extern const double flxi_harmonic_factor[SPLAT_MAX_BANDS];

#endif
