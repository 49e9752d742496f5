"""A tool parser plugin whose import hangs while the file named by HANG_WHILE_THERE is there."""

import os
import time
from pathlib import Path

while Path(os.environ["HANG_WHILE_THERE"]).exists():
    time.sleep(0.1)
