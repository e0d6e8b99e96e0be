"""``python -m mi300bench.cli``, the module that torchrun starts on each rank."""

from mi300bench.cli.main import main

if __name__ == "__main__":
    main()
