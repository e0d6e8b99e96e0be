"""A tuned config as the settings of another framework, in that framework's units.

source.py      what an exporter reads, and what it returns: a text, and notes for the user
targets.py     the table of targets, and the groups of settings that each needs
ddp.py         PyTorch DistributedDataParallel: a Python snippet
deepspeed.py   DeepSpeed: a JSON config
megatron.py    Megatron-LM: an arguments file
torchtitan.py  torchtitan: a TOML job config
accelerate.py  Hugging Face accelerate: a YAML config
maxtext.py     MaxText: a YAML config for LoRA
env.py         environment variables for a shell
launch.py      scripts for torchrun and Slurm that start our trainer
"""
