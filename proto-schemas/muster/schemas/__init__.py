"""The wire contract: what may be said on Muster's event streams, by whom, in which shape.

Facts are pydantic models (`muster.schemas.facts`), listed in one table (`registry`) with their only writer; `subjects`
says where they travel, `envelope` how they are wrapped (CloudEvents 1.0, NATS binary mode), `views` and `queries` what
is answered to questions. Nothing here does I/O.
"""
