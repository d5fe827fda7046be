package webhooksink

import (
	"fmt"
	"net/netip"
	"syscall"
)

// ErrEgressDenied says that the endpoint's address is not one that may be sent to.
// Nothing was sent. Its code is OUTBOX_EGRESS_DENIED.
var ErrEgressDenied error = &codedError{"OUTBOX_EGRESS_DENIED", "egress denied"}

type codedError struct{ code, text string }

func (e *codedError) Error() string { return e.text }
func (e *codedError) Code() string  { return e.code }

// An egress decides which addresses may be connected to.
type egress struct {
	allow []netip.Prefix
	plain bool // the endpoint is http://: only what is allowed by name of its network
}

// control is net.Dialer's Control: it runs for every address a name resolves to,
// after the resolution and before the first packet.
func (e egress) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q is not an address", ErrEgressDenied, address)
	}
	return e.check(to.Addr())
}

func (e egress) check(addr netip.Addr) error {
	for _, p := range e.allow {
		if p.Contains(addr) {
			return nil
		}
	}
	if why := reserved(addr); why != "" {
		return fmt.Errorf("%w: %s is %s; allow its network to send there", ErrEgressDenied, addr, why)
	}
	if e.plain {
		return fmt.Errorf("%w: http:// to %s, whose network is not allowed", ErrEgressDenied, addr)
	}
	return nil
}

// reserved says why an address is not a public one, or "".
func reserved(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return "no address"
	case addr.Is4In6():
		return "an IPv4 address in IPv6 form"
	case addr.Zone() != "":
		return "scoped to an interface"
	case addr.IsUnspecified():
		return "unspecified"
	case addr.IsLoopback():
		return "loopback"
	case addr.IsPrivate():
		return "private"
	case addr.IsLinkLocalUnicast():
		return "link-local, where cloud metadata is"
	case addr.IsMulticast():
		return "multicast"
	}
	for _, r := range reservedRanges {
		if r.prefix.Contains(addr) {
			return r.why
		}
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return "not global unicast"
	}
	return ""
}

// globalUnicast is all of IPv6 that has been given out.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// reservedRanges are the IANA special-purpose registries, less what netip knows, and
// public addresses with a private meaning.
var reservedRanges = []struct {
	prefix netip.Prefix
	why    string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT"},
	{netip.MustParsePrefix("192.0.0.0/24"), "for protocol assignments"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a 6to4 relay"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarks"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documentation"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("168.63.129.16/32"), "the metadata service of a cloud"},

	{netip.MustParsePrefix("64:ff9b::/96"), "NAT64"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "NAT64"},
	{netip.MustParsePrefix("2001::/23"), "for protocol assignments"}, // Teredo too
	{netip.MustParsePrefix("2001:db8::/32"), "for documentation"},
	{netip.MustParsePrefix("2002::/16"), "6to4"},
	{netip.MustParsePrefix("3fff::/20"), "for documentation"},
}
