package gateway

import (
	"iter"
	"strings"

	"github.com/rpcgate/rpcgate/gateway/wire"
)

// weighted gives the elements of a header like Accept or Accept-Encoding, in
// lower case and without parameters, with their weights in thousandths (RFC
// 9110, 12.4.2). An element whose weight is malformed is left out.
func weighted(lines []string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for _, line := range lines {
			for line != "" {
				var element string
				element, line = cutElement(line, ',')
				name, params := cutElement(element, ';')
				if name = strings.ToLower(strings.TrimSpace(name)); name == "" {
					continue
				}
				weight := weightOf(params)
				if weight >= 0 && !yield(name, weight) {
					return
				}
			}
		}
	}
}

// cutElement cuts at the first separator that is in no quoted string.
func cutElement(s string, separator byte) (element, rest string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == separator && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// weightOf finds the weight among parameters: 1000 where there is none, -1
// where it is malformed.
func weightOf(params string) int {
	for params != "" {
		var param string
		param, params = cutElement(params, ';')
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(name, "q") {
			return parseWeight(value)
		}
	}
	return 1000
}

// parseWeight reads a qvalue: 0 or 1 with at most three decimals, and not more
// than 1.
func parseWeight(s string) int {
	whole, decimals, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 {
		return -1
	}
	weight := int(whole[0] - '0')
	for i := range 3 {
		weight *= 10
		if i < len(decimals) {
			if decimals[i] < '0' || decimals[i] > '9' {
				return -1
			}
			weight += int(decimals[i] - '0')
		}
	}
	if weight > 1000 {
		return -1
	}
	return weight
}

// streamOffers are the media types that streams of messages are offered as, in
// the order in which they are preferred to each other.
func streamOffers() [3]string {
	return [...]string{streamLines: "application/x-ndjson", streamEvents: "text/event-stream", streamArray: "application/json"}
}

// acceptedStream picks the form of a stream by the Accept header. Of what the
// caller likes best, what it names comes before what a wildcard covers, so that
// "application/json, */*" is an array and "*/*" is lines. Where nothing is
// acceptable, it is lines all the same: JSON routes have never asked Accept.
func acceptedStream(accept []string) streamForm {
	if len(accept) == 0 {
		return streamLines
	}
	best, bestWeight, bestNamed := streamLines, 0, false
	for form, mediaType := range streamOffers() {
		weight, named := mediaWeight(accept, mediaType)
		if weight > bestWeight || weight == bestWeight && weight > 0 && named && !bestNamed {
			best, bestWeight, bestNamed = streamForm(form), weight, named
		}
	}
	return best
}

// mediaWeight is the weight that an Accept header gives a media type: the one of
// the most specific range that matches; and whether that names the type.
func mediaWeight(accept []string, mediaType string) (weight int, named bool) {
	kind, _, _ := strings.Cut(mediaType, "/")
	precise := 0
	for name, q := range weighted(accept) {
		specific := 0
		switch name {
		case mediaType:
			specific = 3
		case kind + "/*":
			specific = 2
		case "*/*":
			specific = 1
		}
		if specific > precise {
			precise, weight = specific, q
		}
	}
	return weight, precise == 3
}

// acceptedEncoding picks a content coding by the Accept-Encoding header: the one
// of the offers, the preferred one first, that the caller gives the most weight;
// nil: none.
func acceptedEncoding(accept []string, offers []*wire.Compression) *wire.Compression {
	if len(accept) == 0 {
		return nil
	}
	var best *wire.Compression
	bestWeight := 0
	for _, offer := range offers {
		if weight := encodingWeight(accept, offer.Name()); weight > bestWeight {
			best, bestWeight = offer, weight
		}
	}
	// Not compressing is acceptable unless it is refused, but never preferred by
	// whoever has named something else as highly.
	if best != nil && encodingWeight(accept, wire.Identity) > bestWeight {
		return nil
	}
	return best
}

// encodingWeight is the weight that an Accept-Encoding header gives a coding; 0:
// not acceptable, or not named.
func encodingWeight(accept []string, coding string) int {
	wildcard := 0
	for name, q := range weighted(accept) {
		switch {
		case name == coding, name == "x-gzip" && coding == wire.Gzip:
			return q
		case name == "*" && coding != wire.Identity:
			wildcard = q
		}
	}
	return wildcard
}
