"""A tuned config as another framework's settings, in that framework's units, with its side conditions.

exported.py    what an exporter reads of a config, and what it gives: text, and notes on what the target cannot express
targets.py     the table of targets
one file a target: ddp deepspeed megatron torchtitan accelerate env, and launch (torchrun, sbatch)
"""
