package judge

import "bisectd/bisect"

// Gate returns why a boot has to be thrown away, or nothing: it was measured
// under conditions that void it, and no kernel is judged by it. want is the
// number of vCPUs that the job asked for.
func (o Overrides) Gate(f bisect.Fingerprint, want int) string {
	j := Judge{Checks: o}
	return j.first(conditions(), Case{VCPUs: want, New: bisect.Observations{{Fingerprint: f}}})
}

// Busy tells whether a boot is void because the host had other work to do: the
// next one may be sound when that is done.
func (o Overrides) Busy(f bisect.Fingerprint) bool {
	return f.Waited > o.bound(lawWait, maxWait) && !o.off(lawWait)
}

// Gate is that of a job without overrides.
func Gate(f bisect.Fingerprint, want int) string { return Overrides(nil).Gate(f, want) }
