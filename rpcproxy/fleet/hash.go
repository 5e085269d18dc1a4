package fleet

// HashKey hashes what keeps its endpoint under ring_hash, for Choice.Key: 64-bit
// FNV-1a, followed by [mix], for FNV leaves the upper bits of short keys much
// alike. Every gateway gives the same key the same hash.
func HashKey(key string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	return mix(h)
}

// mix is the finalizer of MurmurHash3 (64 bit, in the variant 13 that
// SplitMix64 has): each bit of x changes each bit of the result with a
// probability of about one half.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
