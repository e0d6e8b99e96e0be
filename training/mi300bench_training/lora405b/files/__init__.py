"""Files of a run: the frozen weights, PEFT folders, checkpoints.

weights.py     Hugging Face safetensors onto a mesh, or drawn weights
peft_files.py  adapters as PEFT reads and writes them
checkpoint.py  what a checkpoint of this trainer has
"""
