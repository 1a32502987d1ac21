"""Every statement about secrets and keys, each with its sentence."""

from __future__ import annotations

from headgate.stores.sql.database.sql_text import Statement

_COPY = "d.name, c.name, c.job_id, c.generation, c.version, c.wrap, c.sealed, c.master_id, c.master_wrap"
_USERS = """select j.id, j.name, j.key_check from hg_job j
            where j.id in (select job_id from hg_job_dataset where dataset_id = :dataset) order by j.id"""

# ---------------------------------------------------------------- custody

READ_USERS = Statement("The jobs that read or make a dataset, with the proofs of their keys.", _USERS)
LOCK_USERS = Statement("The same, locked.", f"{_USERS} {{for_update}}")
READ_ESCROWS = Statement(
    "The wrapping keys of these jobs, under a master key.",
    "select job_id, generation, master_id, master_wrap from hg_escrow where job_id in (:jobs*)",
)
READ_COPIES = Statement(
    "Every copy of a dataset's secrets.",
    f"""select {_COPY} from hg_credential c join hg_dataset d on d.id = c.dataset_id where c.dataset_id = :dataset
        order by c.name, c.job_id, c.generation""",
)
READ_OWN_COPIES = Statement(
    "The copies of secrets in these datasets that a job, or only the master key, can open.",
    f"""select {_COPY} from hg_credential c join hg_dataset d on d.id = c.dataset_id
        where c.dataset_id in (:datasets*) and c.job_id in (0, :job) order by d.id, c.name, c.job_id, c.generation""",
)
READ_LEAST_MASTER = Statement(
    "The oldest accepted master key.", "select value from hg_meta where name = 'min_decrypt_version'"
)
SET_VERSIONS = Statement(
    "The names of a dataset's secrets, each with its version.",
    "update hg_dataset set secrets = :secrets where id = :id",
)
SET_PROOFS = Statement("The proofs of a job's keys.", "update hg_job set key_check = :key_check where id = :id")
DROP_ESCROWS = Statement(
    "Remove a job's wrapping keys under a master key.", "delete from hg_escrow where job_id = :job"
)
ADD_ESCROW = Statement(
    "A job's wrapping key, under a master key.",
    """insert into hg_escrow (job_id, generation, master_id, master_wrap)
       values (:job, :generation, :master_id, :master_wrap)""",
)
DROP_COPY = Statement(
    "Remove a copy of a secret.",
    """delete from hg_credential
       where dataset_id = :dataset and name = :name and job_id = :job and generation = :generation""",
)
ADD_COPY = Statement(
    "A copy of a secret for one holder.",
    """insert into hg_credential (dataset_id, name, job_id, generation, version, wrap, sealed, master_id, master_wrap)
       values (:dataset, :name, :job, :generation, :version, :wrap, :sealed, :master_id, :master_wrap)""",
)
DROP_STRAY_COPIES = Statement(
    "A job's key no longer opens the secrets of datasets that it does not use.",
    """delete from hg_credential where job_id = :job
         and dataset_id not in (select dataset_id from hg_job_dataset where job_id = :job)""",
)
READ_HOLDERS = Statement(
    "The jobs that hold copies of a dataset's secrets.",
    """select distinct j.name from hg_credential c join hg_job j on j.id = c.job_id where c.dataset_id = :dataset
       order by j.name""",
)
DROP_COPIES_OF = Statement(
    "A job no longer holds a dataset's secrets.",
    """delete from hg_credential
       where dataset_id = :dataset and job_id = (select id from hg_job where name = :job)""",
)

# ---------------------------------------------------------------- another master key

READ_OLD_WRAPS = Statement(
    "Copies whose data key is under an older master key.",
    """select d.name, c.name, coalesce(j.name, ''), c.generation, c.master_id, c.master_wrap
       from hg_credential c join hg_dataset d on d.id = c.dataset_id left join hg_job j on j.id = c.job_id
       where c.master_id > 0 and c.master_id < :before
       order by c.dataset_id, c.name, c.job_id, c.generation limit :limit""",
)
READ_OLD_ESCROWS = Statement(
    "Jobs' wrapping keys under an older master key.",
    """select '', '', j.name, e.generation, e.master_id, e.master_wrap
       from hg_escrow e join hg_job j on j.id = e.job_id where e.master_id < :before
       order by e.job_id, e.generation limit :limit""",
)
REWRAP_COPY = Statement(
    "Rewrap a copy's data key with another master key, if it is still under the previous one.",
    """update hg_credential set master_id = :master_id, master_wrap = :master_wrap
       where dataset_id = (select id from hg_dataset where name = :dataset) and name = :name
         and job_id = coalesce((select id from hg_job where name = :job), 0) and generation = :generation
         and master_id = :was_id and master_wrap = :was_wrap""",
)
REWRAP_ESCROW = Statement(
    "Rewrap a job's wrapping key with another master key, if it is still under the previous one.",
    """update hg_escrow set master_id = :master_id, master_wrap = :master_wrap
       where job_id = (select id from hg_job where name = :job) and generation = :generation
         and master_id = :was_id and master_wrap = :was_wrap""",
)
ADD_CHECK = Statement(
    "Record the proof of a master key, unless there is one for that number.",
    "{insert_once} hg_meta (name, value) values (:name, :value) {or_leave}",
)
HOLD_CHECK = Statement("The recorded one.", "select value from hg_meta where name = :name {for_update}")
DROP_CHECK = Statement("Forget that master key.", "delete from hg_meta where name = :name")
DROP_MASTER_COPIES = Statement(
    "Remove copies that only a master key can open.", "delete from hg_credential where wrap = ''"
)
DROP_MASTER_WRAPS = Statement(
    "Remove the master key's access to copies.",
    "update hg_credential set master_id = 0, master_wrap = '' where master_id > 0",
)
DROP_ALL_ESCROWS = Statement("Remove all jobs' wrapping keys under a master key.", "delete from hg_escrow")
ADD_LEAST_MASTER = Statement(
    "The master key from which on copies are opened.",
    "{insert_once} hg_meta (name, value) values ('min_decrypt_version', :value) {or_leave}",
)
SET_LEAST_MASTER = Statement(
    "The same, if one is recorded already.", "update hg_meta set value = :value where name = 'min_decrypt_version'"
)
