"""`python -m backedge.worker.replay`: a Dynamo worker without a model."""

from .worker import main

if __name__ == "__main__":
    main()
