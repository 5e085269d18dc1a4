package chaos

import (
	"sync"
	"syscall"
	"time"
)

// befall lets a schedule befall the system, and returns once all is as it was.
func (s *system) befall(schedule Schedule) {
	began := time.Now()
	var faults sync.WaitGroup
	for _, f := range schedule {
		pause(f.At - time.Since(began))
		faults.Go(func() {
			switch {
			case f.ofEndpoint():
				s.endpoint(f)
			case f.Kind == GatewayKill || f.Kind == GatewayRestart:
				s.gateway(f)
			default:
				s.store(f)
			}
		})
	}
	faults.Wait()
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

func (s *system) endpoint(f Fault) {
	e := s.endpoints[f.Target]
	e.Lock() // on a machine that lags behind, the fault before may not be over
	defer e.Unlock()
	begun := time.Now()
	switch f.Kind {
	case Kill:
		e.backend.Kill()
		pause(f.For)
		e.backend.Again()
	case Restart:
		if err := e.backend.Terminate(); err != nil {
			s.tb.Error(err)
		}
		pause(f.For - time.Since(begun))
		e.backend.Again()
	case Pause:
		e.backend.Pause()
		pause(f.For)
		e.backend.Resume()
	case Drop:
		e.proxy.Drop()
		pause(f.For)
		e.proxy.Accept()
	case Delay:
		e.proxy.Delay(f.Latency, f.Jitter)
		pause(f.For)
		e.proxy.Restore()
	case Reset:
		e.proxy.Reset()
		pause(f.For)
		e.proxy.Restore()
	case Silence:
		e.proxy.Silence()
		pause(f.For)
		e.proxy.Restore()
	}
}

func (s *system) gateway(f Fault) {
	g := s.gateways[f.Target]
	begun := time.Now()
	if f.Kind == GatewayKill {
		g.kill()
	} else {
		g.current().Signal(syscall.SIGTERM)
		if exit := g.current().ExitCode(); exit != 0 {
			s.tb.Errorf("gateway %d stopped with exit status %d", f.Target, exit)
		}
	}
	pause(f.For - time.Since(begun))
	g.again(s.tb)
}

func (s *system) store(f Fault) {
	switch f.Kind {
	case EtcdKill:
		s.etcd.Kill()
		pause(f.For)
		s.etcd.Restart()
	case EtcdPause:
		s.etcd.Pause()
		pause(f.For)
		s.etcd.Resume()
	case RedisKill:
		s.redis.Kill()
		pause(f.For)
		s.redis.Restart()
	case RedisPause:
		s.redis.Pause()
		pause(f.For)
		s.redis.Resume()
	}
}
