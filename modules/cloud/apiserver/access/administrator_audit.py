"""The audit log of addresses whose clients are all administrators."""

import msgspec

from beehive.http.request import Request
from beehive.http.responses import Reply
from beehive.http.router import Admitted, AdmittingService, HttpService, admit
from modules.cloud.apiserver.access.service import attributes_of
from modules.cloud.audit.recording import AuditTrail
from modules.cloud.authentication.users import ADMINISTRATORS, User
from modules.cloud.object_writes import ADMINISTRATOR

_USER = User(ADMINISTRATOR, groups=(ADMINISTRATORS,))


class AdministratorAudit(AdmittingService):
    """The recorder of administrators' requests (`HttpService`).

    Args:
        service: serves them.
        audit: records the requests.
    """

    def __init__(self, service: HttpService, audit: AuditTrail) -> None:
        self._service = service
        self._audit = audit

    def admit(self, request: Request) -> Admitted | Reply:
        """See `AdmittingService`."""
        record = self._audit.begin(request)
        record.user, record.asked = _USER, attributes_of(request)
        decided = admit(self._service, request)
        if isinstance(decided, Admitted):
            return msgspec.structs.replace(decided, serve=lambda whole: record.run(lambda: decided.serve(whole)))
        return record.run(lambda: decided)
