"""Mappings: which data ids of an input one data id of a job reads, and the inverse. Time zones are data, as tables are.

`model` has the noun (`InputMap`) and what callers use; `parsing` reads it as people write it. `periods`, `windows`,
`splits` and `whole` have one rule each; `calendar` counts hours, days, weeks, months, quarters and years, `stamps`
reads and writes them as data ids, `patterns` takes data ids apart by name, and `sources` says what a rule answers.
`advice` warns of mappings that look like a mistake.
"""
