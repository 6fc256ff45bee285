"""A real `mlflow server` for tests, which can be stopped and started again at the same address."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request


class Server:
    """An `mlflow server` over a folder, or what another command makes of it."""

    def __init__(self, folder, command=("-m", "mlflow", "server"), environment=None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder = folder
        self.command = command
        self.environment = environment or {}
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        self.launch()
        self.wait()

    def launch(self):
        """Begin to start, and let something else happen meanwhile."""
        options = ["--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}"]
        options += ["--artifacts-destination", str(self.folder / "artifacts")]
        options += ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        log = (self.folder / "server.log").open("a")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_TRACKING")}
        # Seven processes for jobs that no test has would take longer to start than all the rest.
        environment |= {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **self.environment}
        command = [sys.executable, *self.command, *options]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def wait(self):
        """Wait until it answers."""
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=1):
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError((self.folder / "server.log").read_text())

    def stop(self):
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
