package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rpcgate/rpcgate/admin/adminpb"
	"github.com/rpcgate/rpcgate/auth/tenant"
)

// transferService serves rpcgate.admin.v1.TransferService.
type transferService struct {
	adminpb.UnimplementedTransferServiceServer
	*Service
}

func (s transferService) ExportRecords(_ *adminpb.ExportRecordsRequest, to grpc.ServerStreamingServer[structpb.Struct]) error {
	return s.Store.Export(to.Context(), func(r tenant.Record) error {
		record, err := recordTo(r)
		if err != nil {
			return err
		}
		return to.Send(record)
	})
}

func (s transferService) ImportRecords(from grpc.ClientStreamingServer[adminpb.ImportRecordsRequest, adminpb.ImportRecordsResponse]) error {
	sum := new(adminpb.ImportRecordsResponse)
	for n := 1; ; n++ {
		r, err := from.Recv()
		if errors.Is(err, io.EOF) {
			return from.SendAndClose(sum)
		}
		if _, told := status.FromError(err); err != nil && !told {
			// The caller's side broke off: nothing that the store is to blame for.
			return status.Errorf(codes.Canceled, "record %d did not come to its end", n)
		}
		if err != nil {
			return err
		}
		record, err := recordFrom(r.GetRecord())
		if err != nil {
			return badField("record", fmt.Sprintf("record %d: %v", n, err))
		}
		o := tenant.ImportOptions{DryRun: r.GetDryRun()}
		switch r.GetExisting() {
		case adminpb.ImportRecordsRequest_SKIP:
			o.Existing = tenant.ExistingSkip
		case adminpb.ImportRecordsRequest_REPLACE:
			o.Existing = tenant.ExistingReplace
		}
		result, err := s.Store.Import(from.Context(), record, o)
		if input, ok := errors.AsType[*tenant.InputError](err); ok {
			return badField("record."+input.Field, fmt.Sprintf("record %d: %s", n, input.Fault))
		}
		if err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		switch result {
		case tenant.Created:
			sum.Created++
		case tenant.Replaced:
			sum.Replaced++
		default:
			sum.Kept++
		}
	}
}

// recordTo gives a record in the form of its line of JSON.
func recordTo(r tenant.Record) (*structpb.Struct, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	record := new(structpb.Struct)
	return record, record.UnmarshalJSON(text)
}

// recordFrom reads a record; what it does not know is refused, and not lost.
func recordFrom(s *structpb.Struct) (tenant.Record, error) {
	if len(s.GetFields()) == 0 {
		return tenant.Record{}, errors.New("it is empty")
	}
	text, err := s.MarshalJSON()
	if err != nil {
		return tenant.Record{}, err
	}
	var r tenant.Record
	return r, json.Unmarshal(text, &r)
}
