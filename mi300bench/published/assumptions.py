"""Values that we assume where nothing is published, each with its source.

Every record and config that uses them repeats the list.
"""

# Matrix products are assumed to reach between these shares of the published peak. The upper one is
# the best product published for MI300X (668.4 of 1307.4 TFLOPS, Bekman, ml-engineering), the lower
# one an estimate for the small products of experts.
LEAST_SHARE, MOST_SHARE = 0.08, 0.51
# Latency of an all-reduce: that of 1 MiB at 39.9 GB/s busbw among 8 H200 (ml-engineering). No such
# curve is published for MI300X.
LATENCY_S = 46e-6
# How many times as long computation and communication take when they overlap: each gets half of the
# slowdown that Primus assumes.
OVERLAP = 1.1
STAND_INS = (
    f"assumed, because nothing is published: products reach {LEAST_SHARE:.0%} to {MOST_SHARE:.0%} "
    f"of the peak, an all-reduce has {LATENCY_S * 1e6:.0f} us of latency as on 8 H200 "
    f"(ml-engineering), computation and communication take {OVERLAP:.2f} times as long when they "
    "overlap (Primus)"
)
