"""Every code of the OCFL 1.1 list, with the reason for those that cannot be found in a stored object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """A rule of the specification."""

    #: The rule.
    rule: str
    #: Why it is never reported for an object; empty: it is.
    unused: str = ""


_ROOT = "It concerns storage roots, not objects."
_TOOL = "It concerns the behaviour of tools, not objects."


def _same(code: str) -> str:
    return f"An object that violates it is reported with {code}."


#: Errors start with E (what the specification says with MUST), warnings with W (SHOULD).
CODES: Mapping[str, Code] = {
    "E001": Code("The object root holds nothing but what the specification lists."),
    "E002": Code("The declaration is formatted as NAMASTE, with `=` in its name."),
    "E003": Code("There is exactly one declaration."),
    "E004": Code("The name of the declaration is `T=dvalue`, where T is one digit."),
    "E005": Code("T is 0 in the name of the declaration."),
    "E006": Code("The dvalue is `ocfl_object_` and a version of the specification."),
    "E007": Code("The declaration contains its dvalue and a line feed."),
    "E008": Code("There is at least one version."),
    "E009": Code("The first version has number 1."),
    "E010": Code("No version is left out."),
    "E011": Code("A zero-padded version directory starts with `v0`."),
    "E012": Code("Zero-padded version directories have the same length."),
    "E013": Code("All versions are named as the first one is: zero-padded or not."),
    "E014": Code("Content paths have the actual names of version directories."),
    "E015": Code("A version directory has no files but an inventory and its sidecar."),
    "E016": Code("A version with content has a content directory."),
    "E017": Code("`contentDirectory` has no slash."),
    "E018": Code("`contentDirectory` is neither `.` nor `..`."),
    "E019": Code("If `contentDirectory` is set, it is set in the first version."),
    "E020": Code("`contentDirectory` does not change between versions."),
    "E021": Code("Without `contentDirectory` the content directory is named `content`."),
    "E022": Code("Tools ignore other directories of a version.", _TOOL),
    "E023": Code("Every file in a content directory is in the manifest of its version, and of later ones."),
    "E024": Code("A content directory has no empty directories."),
    "E025": Code("Content is addressed by sha512 or sha256."),
    "E026": Code("Fixity algorithms come from the lists of the specification or an extension.", _same("E056")),
    "E027": Code("The tool supports all algorithms of the specification.", _TOOL),
    "E028": Code("Tools ignore algorithms that they do not support.", _TOOL),
    "E029": Code("sha1 is 40 hexadecimal digits."),
    "E030": Code("sha256 is 64 hexadecimal digits."),
    "E031": Code("sha512 is 128 hexadecimal digits."),
    "E032": Code("blake2b-512 is 128 hexadecimal digits."),
    "E033": Code("An inventory is a JSON document in UTF-8 with the structure of the specification."),
    "E034": Code("An inventory is named `inventory.json`."),
    "E035": Code("Content paths have `/` between their parts."),
    "E036": Code("An inventory has `id`, `type`, `digestAlgorithm` and `head`."),
    "E037": Code("The id is a text that is not empty."),
    "E038": Code("The type is that of a version of the specification; in the object root, of the declared one."),
    "E039": Code("`digestAlgorithm` is the algorithm of manifest and state."),
    "E040": Code("`head` is the version with the highest number; in a version directory, that version."),
    "E041": Code("An inventory has a manifest."),
    "E042": Code("Content paths lie in the content directory of a version."),
    "E043": Code("An inventory has versions."),
    "E044": Code("The block of versions has the key `versions`."),
    "E045": Code("`versions` is an object."),
    "E046": Code("Version directories and the keys of `versions` are the same."),
    "E047": Code("Each version is an object."),
    "E048": Code("Each version has `created` and `state`."),
    "E049": Code("`created` is a time by RFC 3339, with seconds and time zone."),
    "E050": Code("The state is an object of arrays, whose keys are in the manifest, in the same spelling."),
    "E051": Code("A logical path is a text."),
    "E052": Code("The parts of a logical path are neither `.` nor `..` nor empty."),
    "E053": Code("A logical path neither starts nor ends with a slash."),
    "E054": Code("A user is an object with a name."),
    "E055": Code("The fixity block has the key `fixity`."),
    "E056": Code("Fixity algorithms are named by the specification or a registered extension."),
    "E057": Code("A fixity block has the structure of a manifest, for files of the manifest."),
    "E058": Code("Every inventory has a sidecar."),
    "E059": Code("The sidecar's algorithm is the `digestAlgorithm` of the inventory."),
    "E060": Code("The sidecar has the digest of the inventory."),
    "E061": Code("The sidecar has the form `DIGEST inventory.json`."),
    "E062": Code("The sidecar is written after the inventory.", _same("E060")),
    "E063": Code("The object root has an inventory."),
    "E064": Code("The inventory of the object root is that of the newest version."),
    "E066": Code("Earlier inventories have the same states of versions as the current one."),
    "E067": Code("`extensions` has nothing but directories of extensions."),
    "E069": Code("A storage root has a declaration.", _ROOT),
    "E070": Code("`ocfl_layout.json` has `extension` and `description`.", _ROOT),
    "E071": Code("The layout is a registered extension.", _ROOT),
    "E072": Code("The hierarchy has no files beside objects.", _ROOT),
    "E073": Code("A storage root has no empty directories.", _ROOT),
    "E074": Code("Storage roots are independent of each other.", _ROOT),
    "E075": Code("The declaration of a root is formatted as NAMASTE.", _ROOT),
    "E076": Code("A root has one declaration.", _ROOT),
    "E077": Code("The name of the declaration of a root is `T=dvalue`.", _ROOT),
    "E078": Code("T is 0 in the declaration of a root.", _ROOT),
    "E079": Code("The dvalue of a root is `ocfl_` and a version.", _ROOT),
    "E080": Code("The declaration of a root contains its dvalue.", _ROOT),
    "E081": Code("Objects have the OCFL version of their root, or an earlier one.", _ROOT),
    "E082": Code("Objects lie at the end of the hierarchy.", _ROOT),
    "E083": Code("Ids lead to paths by one rule.", _ROOT),
    "E084": Code("The hierarchy has no files in between.", _ROOT),
    "E085": Code("The hierarchy ends with objects.", _ROOT),
    "E087": Code("Validators ignore files of a root that they do not know.", _ROOT),
    "E088": Code("A root has no other directories.", _ROOT),
    "E089": Code("Content that is not a regular file is wrapped in one."),
    "E090": Code("There are no links: no symbolic ones, and no file under two names."),
    "E092": Code("The manifest is made of arrays of content paths, whose files exist and have that digest."),
    "E093": Code("Fixity values are those of the files."),
    "E094": Code("A message is a text."),
    "E095": Code("Logical paths of a version are unique, and none is a directory of another."),
    "E096": Code("A digest is in the manifest once, whatever its case."),
    "E097": Code("A digest is in the fixity block of an algorithm once, whatever its case."),
    "E098": Code("A content path is a text."),
    "E099": Code("The parts of a content path are neither `.` nor `..` nor empty."),
    "E100": Code("A content path neither starts nor ends with a slash."),
    "E101": Code("Content paths are unique, also in fixity blocks, and none is a directory of another."),
    "E102": Code("An inventory has no keys that the specification does not name."),
    "E103": Code("Each version has the same OCFL version as the one before, or a later one."),
    "E104": Code("The name of a version starts with `v`."),
    "E105": Code("After the `v` comes a whole number from 1 on."),
    "E106": Code("The manifest is an object."),
    "E107": Code("Every digest of the manifest is in the state of a version."),
    "E108": Code("`contentDirectory` names a directory."),
    "E110": Code("The id is the same in every version."),
    "E111": Code("`fixity` is an object."),
    "E112": Code("`extensions` of a storage root has nothing but directories of extensions.", _ROOT),
    "W001": Code("Version directories are not zero-padded."),
    "W002": Code("A version directory has no directories but the content directory."),
    "W003": Code("A version without content has no content directory."),
    "W004": Code("Content is addressed by sha512."),
    "W005": Code("The id is a URI."),
    "W007": Code("Each version has a message and a user."),
    "W008": Code("A user has an address."),
    "W009": Code("The address of a user is a URI."),
    "W010": Code("Every version directory has an inventory."),
    "W011": Code("Earlier inventories have the same `created`, `message` and `user` of versions."),
    "W012": Code("`logs` has records of what was done to the object.", "What a file in `logs` says cannot be judged."),
    "W013": Code("Extensions are registered."),
    "W014": Code("A root has one layout.", _ROOT),
    "W015": Code("Objects lie either all at the top of the root or all in a hierarchy.", _ROOT),
    "W016": Code("Extensions of a storage root are registered.", _ROOT),
}
#: Registered extensions; `initial` is the specification's own.
EXTENSIONS = frozenset(
    [
        "initial", "0001-digest-algorithms", "0002-flat-direct-storage-layout",
        "0003-hash-and-id-n-tuple-storage-layout", "0004-hashed-n-tuple-storage-layout", "0005-mutable-head",
        "0006-flat-omit-prefix-storage-layout", "0007-n-tuple-omit-prefix-storage-layout", "0008-schema-registry",
        "0009-digest-algorithms", "0010-differential-n-tuple-omit-prefix-storage-layout",
        "0011-direct-clean-path-layout", "0012-hash-and-no-prefix-id-n-tuple-storage-layout",
    ]
)  # fmt: skip
