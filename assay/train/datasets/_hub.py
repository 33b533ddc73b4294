"""Texts of the Hugging Face hub, streamed with the package `datasets`, a document a row."""

from collections.abc import Iterator
from typing import Any

from assay.errors import BadInput, CannotRunHere
from assay.models.pretrained import hub
from assay.plugins import how_to_install
from assay.train.documents import Document

_COLUMN = "text"
_INSTEAD = (
    "or get its files elsewhere and give their folder: the dataset folder, with the path as place"
)


def stream(place: str, repository: str, configuration: str | None = None) -> Iterator[Document]:
    """The rows of the split `train`, named by their number.

    A place is refused, for these texts have none; CannotRunHere where no hub answers.
    """
    if place:
        raise BadInput(
            f"{repository} comes from the Hugging Face hub and takes no place, got {place!r}; "
            "use the dataset folder for files of yours"
        )
    rows = _rows(repository, configuration)
    number = 0
    while True:
        try:
            text = next(rows)[_COLUMN]
        except StopIteration:
            return
        except Exception as error:  # of whatever library carries the connection
            raise _unanswered(repository, error) from error
        yield Document(name=f"{repository}#{number}", text=text)
        number += 1


def _rows(repository: str, configuration: str | None) -> Iterator[dict[str, Any]]:
    try:
        import datasets
    except ImportError as error:
        raise CannotRunHere(
            f"{repository} is streamed from the Hugging Face hub with the package datasets, which "
            f"is not installed here: {how_to_install(['datasets'])}, {_INSTEAD}"
        ) from error
    if not hub.answers():
        raise _unanswered(repository, hub.absence())
    try:
        return iter(datasets.load_dataset(repository, configuration, split="train", streaming=True))
    except Exception as error:  # of whatever library carries the connection
        raise _unanswered(repository, error) from error


def _unanswered(repository: str, error: Exception | str) -> CannotRunHere:
    named = f"{type(error).__name__}: " if isinstance(error, Exception) else ""
    reason = f"{named}{error}".partition("\n")[0]
    return CannotRunHere(
        f"the Hugging Face hub did not give {repository} ({reason}); try again where it can be "
        f"reached, {_INSTEAD}"
    )
