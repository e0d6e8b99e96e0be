"""``python -m mi300bench.cli``, which is how torch's launcher starts a rank."""

from mi300bench.cli.main import main

if __name__ == "__main__":
    main()
