"""Where a machine keeps data."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """Where this machine keeps data; only `vector_cache` has an influence on the result, in its last digits.

    Attributes:
        cache_dir: where tokenized texts are kept between runs; None keeps none.
        tfds_data_dir: where TFDS keeps prepared datasets; None is its default.
        tfds_manual_dir: a folder with the official SQuAD files, for machines without the internet.
        prepared: a folder that fabir-prepare wrote, used instead of the data; None reads the data itself.
        vector_cache: a folder that keeps what a frozen word model computes of each text, once for all steps and all
            runs; None computes it in every step. Its numbers have half precision.
    """

    cache_dir: str | None = "~/.cache/fabir_tf"
    tfds_data_dir: str | None = None
    tfds_manual_dir: str | None = None
    prepared: str | None = None
    vector_cache: str | None = None

    @property
    def tfds_folders(self) -> dict[str, str | None]:
        """The arguments of `load_dataset` among these."""
        return {"tfds_data_dir": self.tfds_data_dir, "tfds_manual_dir": self.tfds_manual_dir}
