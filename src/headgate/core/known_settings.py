"""Every setting, with its default and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headgate.core.ledger.model import DEFAULT_MAX_INPUT_IDS
from headgate.core.queue.model import DEFAULT_MAX_CRASHES
from headgate.core.values.names import RESOURCE_LIMIT

#: How a setting's text is parsed: unchanged, as the URL of a store, a path, a duration, a size, a number from 0 on, a
#: whole number from 1 on, a limit (a whole number; 0: none), a retention time, or names of variables. In a file, a
#: relative path (also that of a SQLite store) is relative to the file.
Reading = Literal["text", "store", "path", "seconds", "bytes", "number", "count", "limit", "keep", "variables"]


@dataclass(frozen=True, slots=True)
class Known:
    """One setting."""

    #: Its name in the file; the environment variable is HEADGATE_ and this name in capitals.
    name: str
    #: Its default value.
    default: str
    #: One sentence.
    meaning: str
    #: It is never shown in full.
    secret: bool = False
    #: How the text is parsed.
    kind: Reading = "text"

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return "HEADGATE_" + self.name.upper()


KNOWN = (
    Known(
        "url",
        "",
        (
            "URL of the store: the ledger, the history and everything else that has no URL of its own (default: the "
            "nearest `headgate.db`)."
        ),
        kind="store",
    ),
    Known("coordination_url", "", "URL of the store for locks and queue (default: the store in `url`).", kind="store"),
    Known(
        "answer_within",
        "2",
        "Seconds that a call may take beyond its `wait` time.",
        kind="seconds",
    ),
    Known("listen_url", "", "URL of a direct connection for notifications, if `url` is a pooler such as PgBouncer."),
    Known(
        "replication",
        "asynchronous",
        "Replication of the database in `url`: asynchronous, or synchronous (leases survive a failover).",
    ),
    Known(
        "server", "", ("URL of a service to use instead of a store: https://host:port. It takes precedence over `url`.")
    ),
    Known(
        "api_token",
        "",
        "API token for the service. It is sent only to the server named in the same place, or by the system.",
        secret=True,
    ),
    Known(
        "insecure_http",
        "no",
        "yes: send the API token to other machines over plain http, unencrypted. Set it where the token is set.",
    ),
    Known("work_folder", "headgate-work", "Folder for the files of ingest jobs while they are processed.", kind="path"),
    Known("profiles_folder", "headgate-profiles", "Folder of the ingest profiles, one TOML file each.", kind="path"),
    Known("storage_root", "headgate-storage", "OCFL storage root of profiles that do not name one.", kind="path"),
    Known(
        "upload_limit",
        "50000000",
        ("Largest file that the service accepts, in bytes or with a unit such as 512 MiB."),
        kind="bytes",
    ),
    Known(
        "space_threshold",
        "1000000000",
        "Space to keep free on the file system of `work_folder`, in bytes or with a unit such as 10GB.",
        kind="bytes",
    ),
    Known(
        "store_group",
        "",
        "Group that can use a new store, work folder or storage root (2770/0660); empty: only the owner (0700/0600).",
    ),
    Known(
        "minter_key", "", "Key that determines the order of the names that the built-in minter generates.", secret=True
    ),
    Known(
        "mail_server",
        "",
        (
            "URL of the mail server: smtp://host (STARTTLS), smtps://host (TLS) or smtp+plain://host (loopback); "
            "[user@]host[:port]."
        ),
    ),
    Known("mail_password", "", "Password of the user in `mail_server`.", secret=True),
    Known("mail_from", "headgate@localhost", "Sender address of reports."),
    Known("mail_reply_to", "", "Reply address of reports (default: `mail_from`)."),
    Known(
        "notices",
        "",
        "Recipients of notices about incidents: tables [notices.NAME] with url, slack or mail; see the guide.",
        secret=True,
    ),
    Known(
        "notice_window",
        "60",
        "Incidents within this time are one notice, in seconds or with a unit such as 5m.",
        kind="seconds",
    ),
    Known(
        "notices_per_hour",
        "20",
        "Notices that one recipient gets in an hour; the last one sums up what was kept back.",
        kind="count",
    ),
    Known(
        "incident_keep",
        "90d",
        "How long closed incidents are kept; the daemon `messenger` removes older ones.",
        kind="keep",
    ),
    Known(
        "rate_limit",
        "50",
        "Requests per second that one API token may send, with bursts of four times that; 0: no limit.",
        kind="number",
    ),
    Known(
        "rate_limit_local",
        "0",
        "Requests per second from callers on the same machine; 0: no limit.",
        kind="number",
    ),
    Known(
        "submit_limit",
        "10",
        "Batches per second that one API token may submit, with bursts of four times that; 0: no limit.",
        kind="number",
    ),
    Known(
        "submit_limit_local", "0", "Batches per second from callers on the same machine; 0: no limit.", kind="number"
    ),
    Known(
        "trusted_proxies",
        "127.0.0.0/8, ::1",
        "Addresses and networks of trusted proxies (X-Forwarded-For, -Proto, -Host), separated by commas, or none.",
    ),
    Known(
        "hsts",
        "365d",
        "How long browsers use only TLS after a response over TLS (Strict-Transport-Security); 0: no such header.",
        kind="seconds",
    ),
    Known(
        "body_limit",
        "1000000",
        ("Largest request body that the service accepts, in bytes or with a unit such as 1MB."),
        kind="bytes",
    ),
    Known(
        "large_body_limit",
        "50000000",
        "Largest body of requests with long lists, such as the jobs of a batch or the files of an object.",
        kind="bytes",
    ),
    Known(
        "body_time",
        "300",
        "Longest time to receive a request body, in seconds or with a unit such as 5m.",
        kind="seconds",
    ),
    Known(
        "body_memory",
        "200000000",
        (
            "Memory for all request bodies over 16 KiB (smaller ones are always read), in bytes or with a unit such as "
            "200MB."
        ),
        kind="bytes",
    ),
    Known("body_memory_per_token", "100000000", "Share of `body_memory` that one API token may use.", kind="bytes"),
    Known(
        "bodies_per_token",
        "16",
        "Request bodies over 16 KiB that one API token may send at the same time.",
        kind="count",
    ),
    Known("upload_time", "21600", "Longest time for an upload, in seconds or with a unit such as 6h.", kind="seconds"),
    Known("uploads_at_once", "16", "Uploads that the service receives at the same time.", kind="count"),
    Known(
        "upload_quota",
        "100000000000",
        (
            "Space for all uploads, which are kept until their batches are removed, in bytes or with a unit such as "
            "100GB."
        ),
        kind="bytes",
    ),
    Known(
        "max_input_ids",
        str(DEFAULT_MAX_INPUT_IDS),
        "Data ids that one claim of a job with mapped inputs may read.",
        kind="count",
    ),
    Known("upload_quota_per_token", "20000000000", "Share of `upload_quota` that one API token may use.", kind="bytes"),
    Known("uploads_per_token", "4", "Uploads that one API token may send at the same time.", kind="count"),
    Known("streams_at_once", "2000", "Event streams that the service keeps open at the same time.", kind="count"),
    Known("streams_per_token", "50", "Event streams that one API token may keep open.", kind="count"),
    Known(
        "token_warning",
        "14d",
        "How long before an API token expires `status`, `doctor` and the dashboard warn about it.",
        kind="seconds",
    ),
    Known(
        "max_crashes",
        str(DEFAULT_MAX_CRASHES),
        (
            "Crashes of workers in one step after which a batch or ingest job is held; 0: no limit. Profiles can "
            "override it."
        ),
        kind="limit",
    ),
    Known(
        "retention",
        "604800",
        "How long completed batches are kept, in seconds or with a unit such as 7d.",
        kind="seconds",
    ),
    Known(
        "history_age",
        "3600",
        "Age at which history is copied from ZooKeeper to `url` and removed there.",
        kind="seconds",
    ),
    Known(
        "history_keep",
        "forever",
        "How long history is kept, such as 400d; the daemon `history` removes what is older.",
        kind="keep",
    ),
    Known(
        "log_keep",
        "64KiB",
        (
            "How much is kept of the end of each output of an attempt or ingest step, at most 1 MiB; 0: nothing, and "
            "commands write to our own outputs directly."
        ),
        kind="bytes",
    ),
    Known(
        "log_keep_for",
        "30d",
        "How long logs of attempts and ingest steps are kept, or forever; the daemon `history` removes older ones.",
        kind="keep",
    ),
    Known("round_pause", "10", "Pause between checks of ingest jobs that wait for space.", kind="seconds"),
    Known("client", "", "Client name for locks (default: user@host)."),
    Known("log_format", "auto", "Log lines: `text`, `json`, or `auto` (text on a terminal, JSON otherwise)."),
    Known("lock_delay", "0", "Seconds that a resource stays locked after an exclusive holder died.", kind="seconds"),
    Known("resource_limit", str(RESOURCE_LIMIT), "Resources that one lock request may name.", kind="count"),
    Known("guards", "", "Storage guards by URI scheme, separated by commas: file, or those of installed packages."),
    Known("job_key", "", "The job's key, which opens the secrets of its inputs and outputs.", secret=True),
    Known("job_key_file", "", "File with the job's key; only its owner may be able to read it.", kind="path"),
    Known(
        "master_key_file",
        "",
        ("File with the ring of master keys, which admins use to seal secrets and create keys."),
        kind="path",
    ),
    Known(
        "job_variables",
        "",
        "Variables that jobs may set for their commands besides `PARAM_*`: names, or prefixes such as `OMP_*`.",
        kind="variables",
    ),
    Known(
        "exec_variables",
        "",
        (
            "Variables that commands of `daemon --exec` get besides the standard ones: names, or prefixes such as "
            "`AWS_*`."
        ),
        kind="variables",
    ),
)

#: Settings whose variables are not passed on to commands: secrets, and the paths of files that contain some.
WITHHELD = tuple(known.variable for known in KNOWN if known.secret or known.name in ("job_key_file", "master_key_file"))
