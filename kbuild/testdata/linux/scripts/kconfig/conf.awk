# conf.awk KCONFIG CONFIG: keep the last setting of each symbol that exists.
FNR == NR { if ($1 == "config") { order[++n] = $2 } next }
/^CONFIG_/ { split($0, kv, "="); set[substr(kv[1], 8)] = kv[2] }
/^# CONFIG_.* is not set$/ { set[substr($2, 8)] = "n" }
END {
	print "# Automatically generated file; DO NOT EDIT."
	for (i = 1; i <= n; i++) {
		v = set[order[i]]
		if (v == "" || v == "n") print "# CONFIG_" order[i] " is not set"
		else print "CONFIG_" order[i] "=" v
	}
}
