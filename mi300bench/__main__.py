"""``python -m mi300bench``."""

from mi300bench.cli.main import main

if __name__ == "__main__":
    main()
