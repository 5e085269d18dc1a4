// Package netns puts a server behind a network of its own, a network namespace
// at the other end of a pair of interfaces, where packets can vanish, be lost
// at random, or be answered with resets, by iptables. It needs root, and Linux.
package netns

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rpcgate/rpcgate/integration/process"
)

// Network is a namespace and the way there. It ends with the test, also when
// that is killed. Its methods are for one goroutine at a time.
type Network struct {
	// IP is the address inside of the namespace, where servers listen.
	IP string

	tb     testing.TB
	holder *process.Process
}

// Allowed tells whether this user may make networks.
func Allowed() bool { return os.Geteuid() == 0 }

// New makes a network. Without root it skips the test: that alone is no reason
// to fail; missing tools are.
func New(tb testing.TB) *Network {
	tb.Helper()
	if !Allowed() {
		tb.Skip("network namespaces and iptables need root; the tests with a proxy's faults run without")
	}
	for _, program := range []string{"ip", "iptables", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			tb.Fatalf("%s is not installed; the test needs it (Debian, Ubuntu: apt-get install iproute2 iptables util-linux)", program)
		}
	}
	// The namespace lives as long as a process in it.
	n := &Network{tb: tb, holder: process.Start(tb, "unshare", "--net", "sleep", "infinity")}
	if err := n.holder.AwaitReady(n.apart); err != nil {
		tb.Fatal(err)
	}
	const attempts = 20
	for range attempts {
		err := n.connect(rand.IntN(1 << 14))
		if err == nil {
			return n
		}
		tb.Logf("trying another name: %v", err)
	}
	tb.Fatal("found no free name and address for a pair of interfaces")
	return nil
}

// apart waits until the holder has left this process's namespace.
func (n *Network) apart() error {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", n.holder.PID()))
	if err != nil {
		return err
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", n.holder.PID()))
	if err != nil {
		return err
	}
	if its == own || strings.TrimSpace(string(name)) != "sleep" {
		return errors.New("no namespace yet")
	}
	return nil
}

// connect makes the pair of interfaces, at the number'th of the small networks
// in 198.18.0.0/16, which is reserved for tests of networks (RFC 2544).
func (n *Network) connect(number int) error {
	name := "rpcgate" + strconv.Itoa(number)
	here, there := ip(number*4+1), ip(number*4+2)
	if err := run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(n.holder.PID())); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"ip", "addr", "add", here + "/30", "dev", name},
		{"ip", "link", "set", name, "up"},
		n.inside("ip", "addr", "add", there+"/30", "dev", "eth0"),
		n.inside("ip", "link", "set", "lo", "up"),
		n.inside("ip", "link", "set", "eth0", "up"),
	} {
		if err := run(args...); err != nil {
			_ = run("ip", "link", "del", name)
			return err
		}
	}
	n.IP = there
	return nil
}

func ip(number int) string { return fmt.Sprintf("198.18.%d.%d", number>>8, number&0xff) }

// Via is the command line before a program that runs inside.
func (n *Network) Via() []string {
	return []string{"nsenter", "--target", strconv.Itoa(n.holder.PID()), "--net", "--"}
}

func (n *Network) inside(args ...string) []string { return append(n.Via(), args...) }

// Silence has all packets vanish, in both directions.
func (n *Network) Silence() {
	n.tb.Helper()
	n.rule("INPUT", "-j", "DROP")
	n.rule("OUTPUT", "-j", "DROP")
}

// Lose has a share of the packets vanish, in both directions.
func (n *Network) Lose(share float64) {
	n.tb.Helper()
	for _, direction := range []string{"INPUT", "OUTPUT"} {
		n.rule(direction, "-m", "statistic", "--mode", "random", "--probability", strconv.FormatFloat(share, 'f', -1, 64), "-j", "DROP")
	}
}

// Reset answers all packets with a reset.
func (n *Network) Reset() {
	n.tb.Helper()
	n.rule("INPUT", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset")
}

// Restore lets all packets through again.
func (n *Network) Restore() {
	n.tb.Helper()
	if err := run(n.inside("iptables", "--wait", "-F")...); err != nil {
		n.tb.Fatal(err)
	}
}

func (n *Network) rule(chain string, args ...string) {
	n.tb.Helper()
	if err := run(n.inside(append([]string{"iptables", "--wait", "-A", chain}, args...)...)...); err != nil {
		n.tb.Fatal(err)
	}
}

func run(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
