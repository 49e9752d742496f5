"""`python -m backedge.frontend`: Dynamo's frontend with Backedge's engine factory."""

from .main import main

if __name__ == "__main__":
    main()
