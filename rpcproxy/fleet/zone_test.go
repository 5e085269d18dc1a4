package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/config"
)

// inZone is a field of a gateway in zone x.
func inZone(t *testing.T, policy string, below float64, endpoints ...string) *field {
	t.Helper()
	d := newField(t, 0, func(b *config.Backend) {
		b.Balancer.Policy = policy
		b.Balancer.Zone = config.Zone{Name: "x", SpillBelow: below}
		b.Ejection.PanicThreshold = 0
	})
	d.tell(endpoints...)
	return d
}

// zoned makes n endpoints of a zone, named by the letters from first on.
func zoned(first byte, n int, zone string) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%c zone=%s", first+byte(i), zone))
	}
	return list
}

func (d *field) nearShare(shares map[string]float64) (near float64) {
	for _, e := range d.endpoints {
		if e.Info().Metadata["zone"] == "x" {
			near += shares[e.address[:1]]
		}
	}
	return near
}

func TestZoneSpillsInProportion(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"p2c_ewma", "round_robin", "weighted_round_robin", "least_request", "ring_hash"} {
		for _, tt := range []struct {
			sick int // of ten near ones
			want float64
		}{{0, 1}, {2, 1}, {4, 0.75}, {6, 0.5}, {8, 0.25}, {10, 0}} {
			d := inZone(t, policy, 0.8, append(zoned('a', 10, "x"), zoned('k', 5, "y")...)...)
			for i := range tt.sick {
				d.endpoints[i].SetHealth(NotServing)
			}
			got := d.nearShare(d.shares(4000, whichever, nil))
			if got < tt.want-0.03 || got > tt.want+0.03 {
				t.Errorf("%s, with %d of 10 sick: %.2f stay, want %.2f", policy, tt.sick, got, tt.want)
			}
		}
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		endpoints []string
		want      map[string]float64
	}{
		"own zone":              {[]string{"a zone=x", "b zone=y", "c zone=x"}, map[string]float64{"a": 0.5, "c": 0.5}},
		"none in the own":       {[]string{"a zone=y", "b zone=z"}, map[string]float64{"a": 0.5, "b": 0.5}},
		"none elsewhere":        {[]string{"a zone=x"}, map[string]float64{"a": 1}},
		"without one are apart": {[]string{"a zone=x", "b"}, map[string]float64{"a": 1}},
		"nobody has one":        {[]string{"a", "b"}, map[string]float64{"a": 0.5, "b": 0.5}},
	} {
		d := inZone(t, "round_robin", 0.7, tt.endpoints...)
		wantShares(t, name, d.shares(1000, whichever, nil), 0.001, tt.want)
	}
}

// With spill_below 0 calls leave the zone only when nothing is left of it.
func TestZoneWithoutSpill(t *testing.T) {
	t.Parallel()
	d := inZone(t, "round_robin", 0, "a zone=x", "b zone=x", "c zone=y")
	d.endpoints[0].SetHealth(NotServing)
	wantShares(t, "one is left", d.shares(100, whichever, nil), 0.001, map[string]float64{"b": 1})
	d.endpoints[1].SetHealth(NotServing)
	wantShares(t, "none is left", d.shares(100, whichever, nil), 0.001, map[string]float64{"c": 1})
}

// What a connection has ready of the own zone counts, of all that there are.
func TestZoneSpillsWhileConnecting(t *testing.T) {
	t.Parallel()
	d := inZone(t, "round_robin", 1, "a zone=x", "b zone=x", "c zone=y")
	d.set = d.NewSet(d.endpoints[1:])
	wantShares(t, "half are connected", d.shares(4000, whichever, nil), 0.03, map[string]float64{"b": 0.5, "c": 0.5})
}

// A retry leaves the zone when all of it was tried.
func TestZoneOfARetry(t *testing.T) {
	t.Parallel()
	d := inZone(t, "p2c_ewma", 0.5, "a zone=x", "b zone=x", "c zone=y")
	c := &Choice{Tried: d.endpoints[:2]}
	if d.set.Pick(c); c.Endpoint.Address() != "c:1" {
		t.Errorf("the third attempt goes to %s", c.Endpoint.Address())
	}
}

// Keys that spill keep their endpoint, too.
func TestZoneOfKeys(t *testing.T) {
	t.Parallel()
	d := inZone(t, "ring_hash", 0.8, append(zoned('a', 4, "x"), zoned('k', 4, "y")...)...)
	d.endpoints[0].SetHealth(NotServing)
	d.endpoints[1].SetHealth(NotServing)
	first, second := d.homes(1000), d.homes(1000)
	far := 0
	for i := range first {
		if first[i] != second[i] {
			t.Fatalf("key %d goes to %s and %s", i, first[i], second[i])
		}
		if strings.Contains("klmn", first[i][:1]) {
			far++
		}
	}
	if far < 320 || far > 430 {
		t.Errorf("%d of 1000 keys spill, want about 375", far)
	}
}
