"""What stands in for figures that nobody published, with where it comes from. Every text that uses them says so."""

# Between these shares of the published peak a training step's products may run: the upper is the best product that anybody
# published for MI300X (668.4 of 1307.4 TFLOPS, Bekman, ml-engineering), the lower what small expert shapes may come down to.
LEAST_SHARE, MOST_SHARE = 0.08, 0.51
# Latency of an all-reduce: 1 MiB at 39.9 GB/s busbw among 8 H200 (ml-engineering); no such curve is published for MI300X.
LATENCY_S = 46e-6
# By how much computation and communication slow each other: Primus' constant, halved to each side.
OVERLAP = 1.1
STAND_INS = (
    f"stand-ins for what nobody published: products at {LEAST_SHARE:.0%} to {MOST_SHARE:.0%} of the peak, "
    f"{LATENCY_S * 1e6:.0f} us of all-reduce latency from 8 H200 (ml-engineering), "
    f"{OVERLAP:.2f} times slower beside communication (Primus)"
)
