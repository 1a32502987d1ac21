"""Mappings: which data ids of an input one data id of a job reads, and the inverse. Time zones are treated as data,
like tables.

`model` has the noun (`InputMap`) and the functions that callers use; `parsing` reads definitions. `periods`, `windows`,
`splits` and `whole` have one rule each; `calendar` counts hours, days, weeks, months, quarters and years, `stamps`
converts them to data ids and back, `patterns` splits data ids into fields, and `sources` has the results of a rule.
`advice` warns about likely mistakes.
"""
